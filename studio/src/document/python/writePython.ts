// Writes the Python program of a flow, identical to the output of crates/flow/src/code/python.rs.
// Text of the document reaches the code only as literals, never as names; blocks of code, which a
// script had, are written as they are.

import { type CodeBlocks, moduleAnchor, NO_BLOCKS } from "../code/codeBlocks";
import { type Expression, type Group, group, layOut, withMember } from "../code/expression";
import { localNames, placements } from "../code/localNames";
import { type Flow, type Module, type Port, type Queue, variableName } from "../flow";
import { isList, isObject, type Json, type JsonObject, printJson } from "../json";
import { optionsOf, requiredOf, type Specs, takesList } from "../specs";
import { STANDARD_MAIN } from "./keptCode";
import { KEYWORDS, pythonName, RESERVED_NAMES } from "./keywords";

/** The places of blocks, beside modules. */
const ANCHORS = ["import", "flow", "variables", "queues", "end", "main"] as const;

const RESERVED: ReadonlySet<string> = new Set([...KEYWORDS, ...RESERVED_NAMES]);

/** The script's text, with blocks of code at their places. */
export function writePython(flow: Flow, specs: Specs, blocks: CodeBlocks = NO_BLOCKS): string {
  const anchors = new Set([...ANCHORS, ...flow.modules.map(({ id }) => moduleAnchor(id))]);
  const block = (anchor: string) => {
    const text = blocks.get(anchor);
    if (text === undefined) return "";
    return /(^|\n)#[^\n]*$/.test(text) ? `${text}\n` : `${text}\n\n`;
  };
  const names = localNames(flow, RESERVED);
  const attached = new Set(flow.queues.flatMap(({ from, to }) => [from, to]));
  const declared = [...flow.variables].map(([name, { default: value, doc }]) => {
    const call = group("flow.variable(", ")", ["", string(name)]);
    return line(withArguments(call, { default: value, doc }), "");
  });
  const placed = placements(flow).map(([module, isUsual]) => {
    const before = attached.has(module.id) ? `${names.get(module.id)} = ` : "";
    return block(moduleAnchor(module.id)) + line(placeCall(module, isUsual, flow, specs), before);
  });
  const queues = flow.queues.map((queue) => line(attachCall(queue, names), ""));
  const named = line(group("eu.Flow(", ")", ["", string(flow.name)]), "flow = ");
  const layout = flow.layout === undefined ? "" : line(plain(flow.layout), "flow.layout = ");
  const sections = [
    `${block("import")}import euphrates as eu\n`,
    block("flow") + named + block("variables") + declared.join(""),
    placed.join(""),
    block("queues") + queues.join(""),
    layout,
    [...blocks].map(([anchor]) => (anchors.has(anchor) ? "" : block(anchor))).join("") +
      block("end"),
    `${blocks.get("main") ?? STANDARD_MAIN}\n`,
  ];
  return sections.filter((section) => section !== "").join("\n");
}

function line(expression: Expression, before: string): string {
  return layOut(expression, 0, before, "\n");
}

/** Appends the defined arguments by name. */
function withArguments(call: Group, given: Record<string, Json | undefined>): Group {
  return Object.entries(given).reduce(
    (call, [name, value]) =>
      value === undefined ? call : withMember(call, `${name}=`, plain(value)),
    call,
  );
}

function placeCall(module: Module, isUsual: boolean, flow: Flow, specs: Specs): Group {
  const call = group("flow.place(", ")", ["", moduleCall(module, flow, specs)]);
  return withArguments(call, {
    count: module.count,
    per_worker: module.per_worker,
    workers: module.workers.length > 0 ? module.workers : undefined,
    id: isUsual ? undefined : module.id,
  });
}

/**
 * `eu.scan("a.csv", columns=["x"])`, or `eu.module("scan", {…})` where a function call cannot
 * express the configuration: unknown module or option, missing required option, null.
 */
function moduleCall(module: Module, flow: Flow, specs: Specs): Group {
  const call = functionCall(module, flow, specs);
  if (call !== undefined) return call;
  const any = group("eu.module(", ")", ["", string(module.module)]);
  return module.config.size > 0 ? withMember(any, "", object(module.config, plain)) : any;
}

function functionCall(module: Module, flow: Flow, specs: Specs): Group | undefined {
  const spec = specs.get(module.module);
  if (spec === undefined) return undefined;
  const options = optionsOf(spec);
  const required = requiredOf(spec);
  const isSayable = ([key, value]: [string, Json]) => {
    const option = options.get(key);
    // A call takes any table here; a document can only name one.
    if (option?.["x-python"] === "Any") {
      return typeof value === "string" || variableName(value) !== undefined;
    }
    if (option === undefined || value === null) return false;
    return typeof value !== "string" || !takesList(option);
  };
  if (!required.every((name) => module.config.has(name))) return undefined;
  if (![...module.config].every(isSayable)) return undefined;
  const named = [...module.config].filter(([name]) => !required.includes(name));
  return group(
    `eu.${pythonName(spec.name)}(`,
    ")",
    ...required.map((name) => ["", withVariables(module.config.get(name) ?? null, flow)] as const),
    ...named.map(([name, value]) => [`${pythonName(name)}=`, withVariables(value, flow)] as const),
  );
}

function attachCall(queue: Queue, names: ReadonlyMap<string, string>): Group {
  const end = (id: string) => names.get(id) ?? string(id);
  const call = group("flow.attach(", ")", ["", end(queue.from)], ["", end(queue.to)]);
  const port = (port: Port | undefined): Json | undefined => port;
  return withArguments(call, {
    queue: queue.queue,
    output: port(queue.output),
    input: port(queue.input),
    bytes_max: queue.bytes_max,
  });
}

/** A value with declared variables written as `eu.var(…)`. */
function withVariables(value: Json, flow: Flow): Expression {
  const name = variableName(value);
  if (name !== undefined && flow.variables.has(name)) return `eu.var(${string(name)})`;
  return literal(value, (inner) => withVariables(inner, flow));
}

function plain(value: Json): Expression {
  return literal(value, plain);
}

function literal(value: Json, inner: (value: Json) => Expression): Expression {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "string") return string(value);
  if (isObject(value)) return object(value, inner);
  if (isList(value)) return group("[", "]", ...value.map((item) => ["", inner(item)] as const));
  return printJson(value);
}

function object(object: JsonObject, inner: (value: Json) => Expression): Group {
  const members = [...object].map(([key, value]) => [`${string(key)}: `, inner(value)] as const);
  return group("{", "}", ...members);
}

const ESCAPES: Readonly<Record<string, string>> = {
  '"': '\\"',
  "\\": "\\\\",
  "\n": "\\n",
  "\t": "\\t",
  "\r": "\\r",
  " ": " ",
};

/**
 * A string literal in which only plain printable characters are unescaped: no quote ends it, and
 * no control character changes the text direction.
 */
export function string(text: string): string {
  const hidden = /["\\]|[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Zs}\p{Grapheme_Extend}]/gu;
  return `"${text.replace(hidden, escaped)}"`;
}

function escaped(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const digits = (width: number) => code.toString(16).padStart(width, "0");
  const known = ESCAPES[character];
  if (known !== undefined) return known;
  if (code <= 0xff) return `\\x${digits(2)}`;
  return code <= 0xffff ? `\\u${digits(4)}` : `\\U${digits(8)}`;
}
