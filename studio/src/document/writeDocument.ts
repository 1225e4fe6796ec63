// Writes a flow as a document, fields in Rust's order, followed by the unknown ones that it was
// opened with.

import type { Flow, Module, Queue, Stray, Variable } from "./flow";
import { type Json, type JsonObject, printJson } from "./json";

/** The document's text. */
export function writeDocument(flow: Flow): string {
  return printJson(documentJson(flow));
}

/** The document as JSON. */
export function documentJson(flow: Flow): JsonObject {
  const { strays } = flow;
  const variables = new Map<string, Json>([
    ...[...flow.variables].map(([name, one]) => [name, variableJson(one)] as const),
    ...strays.variables,
  ]);
  return fields(flow.unknown, {
    euphrates: flow.version,
    name: flow.name,
    variables: variables.size > 0 ? variables : undefined,
    modules: withStrays(flow.modules.map(moduleJson), strays.modules),
    queues: withStrays(flow.queues.map(queueJson), strays.queues),
    layout: flow.layout,
  });
}

function variableJson({ default: value, doc, unknown }: Variable): Json {
  return fields(unknown, { default: value, doc });
}

/** A module as JSON. */
export function moduleJson({ unknown, workers, ...known }: Module): Json {
  const { id, module, config, count, per_worker } = known;
  const workersJson = workers.length > 0 ? workers : undefined;
  return fields(unknown, { id, module, config, count, per_worker, workers: workersJson });
}

/** A queue as JSON. */
export function queueJson({ from, output, to, input, queue, bytes_max, unknown }: Queue): Json {
  return fields(unknown, { from, output, to, input, queue, bytes_max });
}

/** Known fields, then unknown ones, which also replace known fields that could not be read. */
function fields(unknown: JsonObject, known: Record<string, Json | undefined>): JsonObject {
  const object = new Map<string, Json>();
  for (const [key, value] of Object.entries(known)) {
    if (value !== undefined && !unknown.has(key)) object.set(key, value);
  }
  for (const [key, value] of unknown) object.set(key, value);
  return object;
}

/** Puts strays back at their positions, or at the end of a shorter list. */
function withStrays(items: readonly Json[], strays: readonly Stray[]): Json[] {
  const list = [...items];
  for (const [position, value] of strays) list.splice(position, 0, value);
  return list;
}
