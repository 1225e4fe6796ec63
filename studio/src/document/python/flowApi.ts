// The methods of a flow (`flow.place`, `flow.attach`, …), interpreted as
// `python/euphrates/flow.py` executes them.

import { parseBytes } from "../byteSize";
import { EMPTY_OBJECT, nextId, type Port, QUEUE_KINDS, type Queue } from "../flow";
import { isList, type Json } from "../json";
import { Numeral } from "../numeral";
import { variable } from "./packageApi";
import { CodeError, type SourcePosition } from "./tokenizer";
import {
  type CallArguments,
  countOf,
  type FlowBuilder,
  NONE,
  notLiteral,
  plainJson,
  textOf,
  type Value,
} from "./values";

/** The value of an attribute of a flow. */
export function flowAttribute(flow: FlowBuilder, name: string, place: SourcePosition): Value {
  const method = METHODS[name];
  if (method !== undefined) {
    return { kind: "function", name: `flow.${name}`, call: (given) => method(flow, given) };
  }
  if (RUN_ATTRIBUTES.has(name)) return { kind: "unknown", why: "it comes of running the flow" };
  const remedy = `what builds a flow: ${Object.keys(METHODS).join(", ")}`;
  throw new CodeError(`a flow has no \`${name}\``, place, remedy);
}

/** Attributes that query or run a flow without changing it. */
const RUN_ATTRIBUTES = new Set(
  "go start check explain spelled_out code draw save to_json name layout".split(" "),
);

const METHODS: Readonly<Record<string, (flow: FlowBuilder, given: CallArguments) => Value>> = {
  place(flow, given) {
    const options = ["count", "per_worker", "workers", "id"];
    const { values, place } = given.bind("flow.place()", ["module"], options);
    return placeModule(flow, values, place);
  },
  attach(flow, given) {
    const options = ["queue", "output", "input", "bytes_max"];
    const { values, place } = given.bind("flow.attach()", ["a", "b"], options);
    return attachModules(flow, values, place);
  },
  chain(flow, given) {
    if (given.named.size > 0) given.bind("flow.chain()", []);
    const ends = given.positional.map((module, i) =>
      placedOrPlace(flow, module, given.places.get(i) ?? given.place),
    );
    ends.slice(1).forEach((end, i) => {
      flow.queues.push({ from: ends[i]?.id ?? "", to: end.id, unknown: EMPTY_OBJECT });
    });
    const last = ends.at(-1);
    if (last === undefined) throw new CodeError("a chain has no modules", given.place, "give one");
    return last;
  },
  variable(flow, given) {
    const declared = variable(given);
    flow.declare(declared, given.place);
    return declared;
  },
};

type PlacedValue = Extract<Value, { kind: "placed" }>;

function placeModule(
  flow: FlowBuilder,
  values: ReadonlyMap<string, Value>,
  placeOf: (name: string) => SourcePosition,
): PlacedValue {
  const { module, config } = moduleOf(values.get("module") ?? NONE, placeOf("module"));
  const given = <T>(
    name: string,
    read: (value: Value, what: string, place: SourcePosition) => T,
  ) => {
    const value = values.get(name);
    return value === undefined || isNone(value) ? undefined : read(value, name, placeOf(name));
  };
  const id = given("id", textOf) ?? nextId(flow.ids, module);
  if (flow.ids.has(id)) {
    throw new CodeError(`two modules have the id \`${id}\``, placeOf("id"), "choose another");
  }
  const [count, per_worker] = [given("count", countOf), given("per_worker", countOf)];
  const workers = given("workers", workersOf) ?? [];
  for (const variable of config.variables) flow.declare(variable, placeOf("module"));
  flow.ids.add(id);
  flow.modules.push({
    id,
    module,
    config: config.json,
    count,
    per_worker,
    workers,
    unknown: EMPTY_OBJECT,
  });
  return { kind: "placed", flow, id };
}

function moduleOf(value: Value, place: SourcePosition): Extract<Value, { kind: "module" }> {
  if (value.kind === "module") return value;
  if (value.kind === "imported") {
    const remedy =
      'write `eu.map("package.module:function")` or `eu.python("package.module:Class")`';
    throw new CodeError("what this is is known only when the program runs", place, remedy);
  }
  if (value.kind === "unknown" || value.kind === "defined") throw notLiteral(value, place);
  throw new CodeError("this is not a module", place, "place eu.scan(…) and the like");
}

function workersOf(value: Value, what: string, place: SourcePosition): readonly string[] {
  const json = plainJson(value, place);
  const names = typeof json === "string" ? [json] : json;
  if (isList(names)) {
    const texts = names.filter((name) => typeof name === "string");
    if (texts.length === names.length) return texts;
  }
  throw new CodeError(`${what} is not a list of texts`, place);
}

function attachModules(
  flow: FlowBuilder,
  values: ReadonlyMap<string, Value>,
  placeOf: (name: string) => SourcePosition,
): PlacedValue {
  const json = (name: string): Json => plainJson(values.get(name) ?? NONE, placeOf(name));
  const end = (name: string) => endOf(flow, values.get(name) ?? NONE, placeOf(name));
  const [from, to, kind] = [end("a"), end("b"), json("queue")];
  const queue = QUEUE_KINDS.find((word) => word === kind);
  if (kind !== null && queue === undefined) {
    const remedy = `kinds: ${QUEUE_KINDS.join(", ")}`;
    throw new CodeError("there is no such kind of queue", placeOf("queue"), remedy);
  }
  const port = (name: string) => portOf(json(name), placeOf(name));
  const bytes = json("bytes_max");
  const bytes_max = bytes === null ? undefined : sizeOf(bytes, placeOf("bytes_max"));
  const [output, input] = [port("output"), port("input")];
  flow.queues.push({
    from,
    output,
    to,
    input,
    queue,
    bytes_max,
    unknown: EMPTY_OBJECT,
  } satisfies Queue);
  return { kind: "placed", flow, id: to };
}

function endOf(flow: FlowBuilder, value: Value, place: SourcePosition): string {
  if (value.kind === "plain" && typeof value.json === "string") return value.json;
  if (value.kind === "placed" && value.flow === flow) return value.id;
  if (value.kind === "placed") {
    throw new CodeError(
      `\`${value.id}\` was placed in another flow`,
      place,
      "place it in this one",
    );
  }
  if (value.kind === "unknown") throw notLiteral(value, place);
  throw new CodeError("this is not placed", place, "flow.place(…) it first, or use flow.chain(…)");
}

/** A port; undefined for None, which is the first port. */
function portOf(json: Json, place: SourcePosition): Port | undefined {
  if (json === null || typeof json === "string") return json ?? undefined;
  if (typeof json === "number" && Number.isInteger(json) && json >= 0) return json;
  throw new CodeError("a port is a name or a position", place);
}

/** The port in a subscript: `a["left"]`. */
export function portOfSubscript(value: Value, place: SourcePosition): Port | undefined {
  return portOf(plainJson(value, place), place);
}

/** `a >> b` between modules or ports; places the right one if it is not placed. */
export function connect(left: PlacedValue, right: Value, place: SourcePosition): PlacedValue {
  const { flow } = left;
  const end = placedOrPlace(flow, right, place);
  const { port: input } = end;
  flow.queues.push({ from: left.id, output: left.port, to: end.id, input, unknown: EMPTY_OBJECT });
  return { kind: "placed", flow, id: end.id };
}

function placedOrPlace(flow: FlowBuilder, value: Value, place: SourcePosition): PlacedValue {
  if (value.kind !== "placed") return placeModule(flow, new Map([["module", value]]), () => place);
  endOf(flow, value, place);
  return value;
}

/** A size in bytes: `1000`, `1e9`, `"64MB"`, `"1.5GiB"`. */
function sizeOf(json: Json, place: SourcePosition): number {
  const isSize = typeof json === "string" || typeof json === "number";
  const size = json instanceof Numeral ? Number(json.text) : isSize ? json : 0;
  const bytes = parseBytes(size);
  if (bytes !== undefined) return bytes;
  const remedy = 'write "512MB", "1GiB" or a number of bytes above 0';
  throw new CodeError("this is no size", place, remedy);
}

function isNone(value: Value): boolean {
  return value.kind === "plain" && value.json === null;
}
