// The values of a program's expressions, as far as they are known without running it.

import type { Module, Port, Queue, Variable } from "../flow";
import { EMPTY_OBJECT, variableReference } from "../flow";
import { type Json, type JsonObject, sameJson } from "../json";
import { didYouMean } from "../problem";
import { CodeError, type SourcePosition } from "./tokenizer";

export type Value =
  | { readonly kind: "plain"; readonly json: Exclude<Json, readonly Json[] | JsonObject> }
  | { readonly kind: "list"; readonly items: readonly Value[] }
  | { readonly kind: "dict"; readonly members: ReadonlyMap<string, Value> }
  | { readonly kind: "variable"; readonly name: string; readonly declared: Variable }
  | { readonly kind: "module"; readonly module: string; readonly config: ModuleConfig }
  | { readonly kind: "flow"; readonly flow: FlowBuilder }
  | {
      readonly kind: "placed";
      readonly flow: FlowBuilder;
      readonly id: string;
      readonly port?: Port;
    }
  | {
      readonly kind: "function";
      readonly name: string;
      readonly call: (given: CallArguments) => Value;
    }
  | { readonly kind: "package" }
  /** An imported Python module or a member of one. */
  | { readonly kind: "imported"; readonly module: string; readonly name?: string }
  /** Known only when the program runs. */
  | { readonly kind: "unknown"; readonly why: string }
  /** A function or class of the program, and whether its body builds flows. */
  | { readonly kind: "defined"; readonly name: string; readonly builds: boolean };

export const NONE: Value = { kind: "plain", json: null };

/** A module's configuration and the variables in it. */
export interface ModuleConfig {
  readonly json: JsonObject;
  readonly variables: readonly Extract<Value, { kind: "variable" }>[];
}

/** Collects the parts of a flow while the program is read. */
export class FlowBuilder {
  readonly variables = new Map<string, Variable>();
  readonly modules: Module[] = [];
  readonly ids = new Set<string>();
  readonly queues: Queue[] = [];
  layout: Json | undefined;

  constructor(readonly name: string) {}

  declare({ name, declared }: Extract<Value, { kind: "variable" }>, place: SourcePosition): void {
    const known = this.variables.get(name) ?? { unknown: EMPTY_OBJECT };
    for (const key of ["default", "doc"] as const) {
      const [old, given] = [known[key], declared[key]];
      if (old === undefined || given === undefined || sameJson(old, given)) continue;
      const message = `variable \`${name}\` has two values for ${key}`;
      throw new CodeError(message, place, "declare it once, and use eu.var(name) elsewhere");
    }
    const { default: value = known.default, doc = known.doc } = declared;
    this.variables.set(name, { default: value, doc, unknown: EMPTY_OBJECT });
  }
}

/** The arguments of a call. */
export class CallArguments {
  constructor(
    readonly place: SourcePosition,
    readonly positional: readonly Value[],
    readonly named: ReadonlyMap<string, Value>,
    /** Source positions of arguments, by index or name. */
    readonly places: ReadonlyMap<number | string, SourcePosition>,
  ) {}

  /** Binds arguments to parameters: `first` by position or name, `rest` by name only. */
  bind(call: string, first: readonly string[], rest: readonly string[] = []): BoundArguments {
    const surplus = this.positional.length - first.length;
    if (surplus > 0) {
      const place = this.places.get(first.length) ?? this.place;
      const most = first.length === 0 ? "no argument" : `at most ${first.length}`;
      throw new CodeError(
        `${call} takes ${most} by position`,
        place,
        optionsRemedy([...first, ...rest]),
      );
    }
    const bound = new Map<string, Value>();
    for (const [i, value] of this.positional.entries()) bound.set(first[i] ?? "", value);
    for (const [name, value] of this.named) {
      const place = this.places.get(name) ?? this.place;
      if (![...first, ...rest].includes(name))
        throw noOption(call, name, [...first, ...rest], place);
      if (bound.has(name)) throw new CodeError(`${call} is given \`${name}\` twice`, place);
      bound.set(name, value);
    }
    const place = (name: string) =>
      this.places.get(name) ?? this.places.get(first.indexOf(name)) ?? this.place;
    return { values: bound, place };
  }
}

export interface BoundArguments {
  readonly values: ReadonlyMap<string, Value>;
  /** The source position of an argument. */
  readonly place: (name: string) => SourcePosition;
}

function noOption(
  call: string,
  name: string,
  known: readonly string[],
  place: SourcePosition,
): CodeError {
  const near = didYouMean(name, known);
  const remedy = near === undefined ? optionsRemedy(known) : `did you mean \`${near}\`?`;
  return new CodeError(`${call} has no option \`${name}\``, place, remedy);
}

function optionsRemedy(options: readonly string[]): string {
  return `options: ${options.join(", ") || "none"}`;
}

/** The JSON of a value; variables in it are appended to `variables`. */
export function jsonOf(
  value: Value,
  place: SourcePosition,
  variables: Extract<Value, { kind: "variable" }>[] = [],
): Json {
  switch (value.kind) {
    case "plain":
      return value.json;
    case "list":
      return value.items.map((item) => jsonOf(item, place, variables));
    case "dict":
      return new Map(
        [...value.members].map(([key, member]) => [key, jsonOf(member, place, variables)]),
      );
    case "variable":
      variables.push(value);
      return variableReference(value.name);
    default:
      throw notLiteral(value, place);
  }
}

/** The error for a value that is not text, number, list or dict. */
export function notLiteral(value: Value, place: SourcePosition): CodeError {
  const remedy = "write it out as text, number, list or dict, or make it a variable: eu.var(…)";
  switch (value.kind) {
    case "unknown":
      return new CodeError(`this is known only when the program runs: ${value.why}`, place, remedy);
    case "defined":
      return definedInProgram(value.name, place);
    case "imported":
      return new CodeError("what is imported is known only when the program runs", place, remedy);
    case "placed":
    case "flow":
    case "module":
      return new CodeError(
        `a ${value.kind === "flow" ? "flow" : "module"} stands here`,
        place,
        remedy,
      );
    default:
      return new CodeError("a function stands here", place, remedy);
  }
}

/** The error for a definition of the program itself, which is not executed. */
export function definedInProgram(name: string, place: SourcePosition): CodeError {
  const remedy = `put it into a file that can be imported, and write "package.module:${name}"`;
  return new CodeError(`\`${name}\` is defined in this program, which is not run`, place, remedy);
}

/** The JSON of a value; throws if it contains variables. */
export function plainJson(value: Value, place: SourcePosition): Json {
  const variables: Extract<Value, { kind: "variable" }>[] = [];
  const json = jsonOf(value, place, variables);
  if (variables.length === 0) return json;
  throw new CodeError("a variable cannot stand here", place, "write a value");
}

export function textOf(value: Value, what: string, place: SourcePosition): string {
  const json = value.kind === "unknown" ? plainJson(value, place) : undefined;
  if (value.kind === "plain" && typeof value.json === "string") return value.json;
  throw new CodeError(`${what} is not a text`, place, json === undefined ? undefined : "write one");
}

/** A non-negative whole number. */
export function countOf(value: Value, what: string, place: SourcePosition): number {
  const json = plainJson(value, place);
  if (typeof json === "number" && Number.isInteger(json) && json >= 0) return json;
  throw new CodeError(`${what} is not a whole number`, place);
}
