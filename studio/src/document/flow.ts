// The flow document: the types of crates/flow/src/document.rs, plus fields that this version does
// not understand, which are kept and written back.

import { isList, isObject, type Json, type JsonObject } from "./json";

/** The document version written here. Newer ones are opened as far as they are understood. */
export const DOCUMENT_VERSION = 1;

/** A flow: modules, the queues between them, and variables. Immutable: edits make a new one. */
export interface Flow {
  readonly version: number;
  readonly name: string;
  readonly variables: ReadonlyMap<string, Variable>;
  /** In order of placement; ids are unique. */
  readonly modules: readonly Module[];
  /** In order of attachment. */
  readonly queues: readonly Queue[];
  /** Positions of modules in the studio; has no effect on the program. */
  readonly layout?: Json | undefined;
  readonly unknown: JsonObject;
  readonly strays: Strays;
}

/** A value that can be given when the flow is run. */
export interface Variable {
  readonly default?: Json | undefined;
  readonly doc?: string | undefined;
  readonly unknown: JsonObject;
}

/** A module placed in a flow. */
export interface Module {
  readonly id: string;
  /** The name of its spec. */
  readonly module: string;
  readonly config: JsonObject;
  readonly count?: number | undefined;
  readonly per_worker?: number | undefined;
  /** Names or labels of workers; empty: any worker. */
  readonly workers: readonly string[];
  readonly unknown: JsonObject;
}

/** A port by position or name. */
export type Port = number | string;

/** How a queue distributes batches to consumers. */
export const QUEUE_KINDS = ["distributed", "pairwise", "broadcast", "keyed"] as const;
export type QueueKind = (typeof QUEUE_KINDS)[number];

/** A queue between two modules, which may be missing. */
export interface Queue {
  readonly from: string;
  readonly output?: Port | undefined;
  readonly to: string;
  readonly input?: Port | undefined;
  readonly queue?: QueueKind | undefined;
  readonly bytes_max?: number | undefined;
  readonly unknown: JsonObject;
}

/** Entries that could not be read as module, queue or variable, with their positions. */
export interface Strays {
  readonly modules: readonly Stray[];
  readonly queues: readonly Stray[];
  readonly variables: JsonObject;
}
export type Stray = readonly [position: number, value: Json];

export const EMPTY_OBJECT: JsonObject = new Map();
export const NO_STRAYS: Strays = { modules: [], queues: [], variables: EMPTY_OBJECT };

/** An empty flow. */
export function newFlow(name = "flow"): Flow {
  return {
    version: DOCUMENT_VERSION,
    name,
    variables: new Map(),
    modules: [],
    queues: [],
    unknown: EMPTY_OBJECT,
    strays: NO_STRAYS,
  };
}

/** A module with default settings. */
export function newModule(id: string, module: string, config: JsonObject = EMPTY_OBJECT): Module {
  return { id, module, config, workers: [], unknown: EMPTY_OBJECT };
}

/** A queue from one module's first output to another's first input. */
export function newQueue(from: string, to: string): Queue {
  return { from, to, unknown: EMPTY_OBJECT };
}

export function moduleOf(flow: Flow, id: string): Module | undefined {
  return flow.modules.find((module) => module.id === id);
}

/** The next free id for a module: its name and a number, as `place` chooses it. */
export function nextId(ids: ReadonlySet<string>, module: string): string {
  for (let number = 1; ; number += 1) {
    const id = `${module}_${number}`;
    if (!ids.has(id)) return id;
  }
}

export function idsOf(flow: Flow): Set<string> {
  return new Set(flow.modules.map(({ id }) => id));
}

/** The name in `{"$var": name}`; undefined for any other value. */
export function variableName(value: Json | undefined): string | undefined {
  if (!(value instanceof Map) || value.size !== 1) return undefined;
  const name: Json | undefined = value.get("$var");
  return typeof name === "string" ? name : undefined;
}

/** The names of all variables in a value. */
export function variablesIn(value: Json): string[] {
  const name = variableName(value);
  if (name !== undefined) return [name];
  if (isList(value)) return value.flatMap(variablesIn);
  return isObject(value) ? [...value.values()].flatMap(variablesIn) : [];
}

/** `{"$var": name}`, which stands for a variable's value in a configuration. */
export function variableReference(name: string): JsonObject {
  return new Map([["$var", name]]);
}
