// Writes the Rust program of a flow, identical to the output of crates/flow/src/code/rust.rs.

import type { Flow, Module, Port, Queue, QueueKind, Variable } from "../flow";
import { isList, isObject, type Json } from "../json";
import { type Numeral, numeralText } from "../numeral";
import { type Expression, type Group, group, layOut, withMember } from "./expression";
import { localNames, placements } from "./localNames";

/** Keywords, and names that the program uses itself. */
const RESERVED: ReadonlySet<string> = new Set(
  (
    "abstract as async await become box break const continue crate do dyn else enum extern false " +
    "final flow fn for gen if impl in let loop macro match mod move mut override priv pub queue " +
    "ref return self static struct super trait true try type typeof unsafe unsized use virtual " +
    "where while yield"
  ).split(" "),
);

/** The program's text. */
export function writeRust(flow: Flow): string {
  const body = bodyOf(flow);
  const run = "go(&flow(), &euphrates_modules::registry(), &Options::default())?";
  return [
    importsOf(body),
    `fn main() -> Result<()> {\n    let report = ${run};\n`,
    '    println!("{report}");\n    Ok(())\n}\n',
    `\n/// The flow.\npub fn flow() -> Document {\n${body}    flow\n}\n`,
  ].join("");
}

function importsOf(body: string): string {
  const parts = [
    ["Port::", "Port"],
    ["Variable {", "Variable"],
  ].flatMap(([used = "", name = ""]) => (body.includes(used) ? [name] : []));
  const several = parts.length > 1 ? `{${parts.join(", ")}}` : parts.join("");
  const kind = body.includes("QueueKind::") ? "QueueKind, " : "";
  return [
    "//! A flow, as a program.\n\nuse euphrates_engine::{Options, go};\n",
    parts.length > 0 ? `use euphrates_flow::document::${several};\n` : "",
    `use euphrates_flow::{Document, ${kind}Result};\n`,
    body.includes("json!(") ? "use serde_json::json;\n" : "",
    "\n",
  ].join("");
}

function bodyOf(flow: Flow): string {
  const names = localNames(flow, RESERVED);
  const attached = new Set(flow.queues.flatMap(({ from, to }) => [from, to]));
  const { layout } = flow;
  return [
    line(`Document::new(${string(flow.name)})`, "let mut flow = "),
    ...[...flow.variables].map(([name, variable]) => line(variableCall(name, variable), "")),
    ...placements(flow).map(([module, isUsual]) => {
      const before = attached.has(module.id) ? `let ${names.get(module.id)} = ` : "";
      return line(placeCall(module, isUsual), before) + workerStatements(module);
    }),
    ...flow.queues.map((queue) => attachStatements(queue, names)),
    layout === undefined ? "" : line(some(json(layout)), "flow.layout = "),
  ].join("");
}

function line(expression: Expression, before: string): string {
  return layOut(expression, 4, before, ";\n");
}

function some(given: Expression | undefined): Expression {
  return given === undefined ? "None" : group("Some(", ")", ["", given]);
}

function variableCall(name: string, { default: value, doc }: Variable): Expression {
  const text = doc === undefined ? undefined : `${string(doc)}.into()`;
  const variable = group(
    "Variable { ",
    " }",
    ["default: ", some(value === undefined ? undefined : json(value))],
    ["doc: ", some(text)],
  );
  return group("flow.variables.insert(", ")", ["", `${string(name)}.into()`], ["", variable]);
}

function placeCall({ id, module, config, count }: Module, isUsual: boolean): Expression {
  const call = isUsual ? group("flow.place(", ")") : group("flow.place_as(", ")", ["", string(id)]);
  const instances = count === undefined ? "None" : `Some(${count})`;
  const members = [string(module), json(config), instances];
  return members.reduce<Group>((call, member) => withMember(call, "", member), call);
}

/** Statements that set the workers of the last placed module. */
function workerStatements({ per_worker, workers }: Module): string {
  const names = workers.map((name) => `${string(name)}.into()`).join(", ");
  const lines = [
    per_worker === undefined ? "" : `    node.per_worker = Some(${per_worker});\n`,
    workers.length === 0 ? "" : `    node.workers = vec![${names}];\n`,
  ].join("");
  const last = '    let node = flow.modules.last_mut().expect("just placed");\n';
  return lines === "" ? "" : last + lines;
}

function attachStatements(queue: Queue, names: ReadonlyMap<string, string>): string {
  const end = (id: string) => (names.has(id) ? `&${names.get(id)}` : string(id));
  const call = group("flow.attach(", ")", ["", end(queue.from)], ["", end(queue.to)]);
  const { output, input, queue: kind, bytes_max } = queue;
  const fields = [
    ["output", output === undefined ? undefined : port(output)],
    ["input", input === undefined ? undefined : port(input)],
    ["queue", kind === undefined ? undefined : `Some(QueueKind::${capitalized(kind)})`],
    ["bytes_max", bytes_max === undefined ? undefined : `Some(${bytes_max})`],
  ].filter(([, value]) => value !== undefined);
  const [only, ...more] = fields;
  if (only === undefined) return line(call, "");
  if (more.length === 0) return layOut(call, 4, "", `.${only[0]} = ${only[1]};\n`);
  const lines = fields.map(([field, value]) => `    queue.${field} = ${value};\n`);
  return line(call, "let queue = ") + lines.join("");
}

function port(port: Port): string {
  if (typeof port === "number") return `Some(Port::Position(${port}))`;
  return `Some(Port::Name(${string(port)}.into()))`;
}

function capitalized(kind: QueueKind): string {
  return kind.charAt(0).toUpperCase() + kind.slice(1);
}

function json(value: Json): Expression {
  const inside = jsonLiteral(value);
  if (typeof inside === "string") return `json!(${inside})`;
  return { ...inside, open: `json!(${inside.open}`, close: `${inside.close})` };
}

function jsonLiteral(value: Json): Expression {
  if (value === null) return "null";
  if (typeof value === "boolean") return String(value);
  if (typeof value === "string") return string(value);
  if (isList(value))
    return group("[", "]", ...value.map((item) => ["", jsonLiteral(item)] as const));
  if (isObject(value)) {
    const member = ([key, inside]: [string, Json]) =>
      [`${string(key)}: `, jsonLiteral(inside)] as const;
    return group("{", "}", ...[...value].map(member));
  }
  return numberLiteral(value);
}

/** A number literal, with a type suffix beyond `i32`. */
function numberLiteral(number: number | Numeral): string {
  const text = numeralText(number);
  if (!/^-?[0-9]+$/.test(text)) return text;
  const whole = BigInt(text);
  if (whole >= -(2n ** 31n) && whole < 2n ** 31n) return text;
  return whole < 2n ** 63n ? `${text}_i64` : `${text}_u64`;
}

const ESCAPES: Readonly<Record<string, string>> = {
  '"': '\\"',
  "\\": "\\\\",
  "\0": "\\0",
  "\n": "\\n",
  "\t": "\\t",
  "\r": "\\r",
  " ": " ",
};

/** A string literal as Rust's `Debug` prints it, with invisible characters escaped. */
function string(text: string): string {
  const hidden = /["\\]|[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Zs}\p{Grapheme_Extend}]/gu;
  const escaped = (character: string) =>
    ESCAPES[character] ?? `\\u{${character.codePointAt(0)?.toString(16)}}`;
  return `"${text.replace(hidden, escaped)}"`;
}
