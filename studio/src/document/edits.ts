// Edits of modules and queues. Each returns a new flow, or throws an `EditError`.

import { attachProblem } from "./check";
import { customConfig, isCustom, specFor } from "./customModules";
import {
  EMPTY_OBJECT,
  type Flow,
  idsOf,
  type Module,
  moduleOf,
  newModule,
  newQueue,
  nextId,
  type Port,
  type Queue,
} from "./flow";
import type { Json, JsonObject } from "./json";
import { type Position, renamePositions, withPositions } from "./layout";
import { EditError, unknownName } from "./problem";
import { type Specs, unknownModule } from "./specs";

/** Appends a module under the next free id. */
export function place(
  flow: Flow,
  module: string,
  { config = EMPTY_OBJECT, position }: { config?: JsonObject; position?: Position } = {},
): { flow: Flow; id: string } {
  const id = nextId(idsOf(flow), module);
  const placed = { ...flow, modules: [...flow.modules, newModule(id, module, config)] };
  return { flow: position ? withPositions(placed, new Map([[id, position]])) : placed, id };
}

/** Places a module of the palette: a built-in or a custom one. */
export function placeNamed(
  flow: Flow,
  specs: Specs,
  name: string,
  position: Position,
): { flow: Flow; id: string } {
  const spec = specs.get(name);
  if (spec === undefined || !isCustom(spec)) return place(flow, name, { position });
  return place(flow, spec.own.module, { config: customConfig(spec), position });
}

/** Removes modules and the queues attached to them. */
export function removeModules(flow: Flow, ids: ReadonlySet<string>): Flow {
  const removed: Flow = {
    ...flow,
    modules: flow.modules.filter(({ id }) => !ids.has(id)),
    queues: flow.queues.filter(({ from, to }) => !ids.has(from) && !ids.has(to)),
  };
  return renamePositions(removed, (id) => (ids.has(id) ? undefined : id));
}

/** Renames a module, also in its queues and in the layout. */
export function rename(flow: Flow, id: string, to: string): Flow {
  if (id === to) return flow;
  if (to === "") throw new EditError({ message: "a module needs a name" });
  if (moduleOf(flow, to) !== undefined) {
    throw new EditError({ message: `two modules have the id \`${to}\``, remedy: "choose another" });
  }
  const renamedId = (one: string) => (one === id ? to : one);
  const renamed = {
    ...flow,
    modules: flow.modules.map((module) => ({ ...module, id: renamedId(module.id) })),
    queues: flow.queues.map((queue) => ({
      ...queue,
      from: renamedId(queue.from),
      to: renamedId(queue.to),
    })),
  };
  return renamePositions(renamed, renamedId);
}

/** Replaces one module by its change. */
export function changeModule(flow: Flow, id: string, change: (module: Module) => Module): Flow {
  const known = moduleOf(flow, id);
  if (known === undefined) throw new EditError(unknownName("module", id, [...idsOf(flow)]));
  const modules = flow.modules.map((module) => (module === known ? change(module) : module));
  return { ...flow, modules };
}

/** Number and workers of instances; setting `count` clears `per_worker` and vice versa. */
export interface Instances {
  readonly count?: number | undefined;
  readonly per_worker?: number | undefined;
  readonly workers?: readonly string[];
}

export function setInstances(flow: Flow, id: string, instances: Instances): Flow {
  return changeModule(flow, id, (module) => {
    const { unknown, count, per_worker } = module;
    const isCount = "count" in instances || "per_worker" in instances;
    return {
      ...module,
      count: isCount ? instances.count : count,
      per_worker: isCount ? instances.per_worker : per_worker,
      workers: instances.workers ?? module.workers,
      unknown: without(unknown, Object.keys(instances)),
    };
  });
}

/** Adds a queue between two ports, if both are free and it closes no cycle. */
export function attach(flow: Flow, specs: Specs, queue: Queue): Flow {
  const problem = attachProblem(flow, specs, queue);
  if (problem !== undefined) throw new EditError(problem);
  return { ...flow, queues: [...flow.queues, queue] };
}

/** A queue between two ports; a module's only port is left unnamed, as documents do. */
export function queueBetween(
  flow: Flow,
  specs: Specs,
  from: { id: string; port: Port | undefined },
  to: { id: string; port: Port | undefined },
): Queue {
  const portName = (id: string, port: Port | undefined, direction: "inputs" | "outputs") => {
    const module = moduleOf(flow, id);
    const names = module && specFor(specs, module)?.[direction];
    const only = typeof names === "object" && names.length === 1 ? names[0] : undefined;
    return port === only || names === "many" ? undefined : port;
  };
  return {
    ...newQueue(from.id, to.id),
    output: portName(from.id, from.port, "outputs"),
    input: portName(to.id, to.port, "inputs"),
  };
}

/** Removes queues by position. */
export function detach(flow: Flow, queues: ReadonlySet<number>): Flow {
  return { ...flow, queues: flow.queues.filter((_, number) => !queues.has(number)) };
}

/** Changes fields of a queue. */
export function changeQueue(
  flow: Flow,
  number: number,
  change: Partial<Pick<Queue, "queue" | "bytes_max" | "input" | "output">>,
): Flow {
  const known = requireQueue(flow, number);
  const unknown = without(known.unknown, Object.keys(change));
  const queues = flow.queues.map((queue) =>
    queue === known ? { ...queue, ...change, unknown } : queue,
  );
  return { ...flow, queues };
}

/**
 * Splices a placed module into a queue. The queue's kind and size concern its consumer, so the
 * second part keeps them.
 */
export function splice(flow: Flow, specs: Specs, number: number, id: string): Flow {
  const queue = requireQueue(flow, number);
  const module = moduleOf(flow, id);
  if (module === undefined) throw new EditError(unknownName("module", id, [...idsOf(flow)]));
  const spec = specFor(specs, module);
  if (spec === undefined) throw new EditError(unknownModule(specs, module.module));
  for (const direction of ["inputs", "outputs"] as const) {
    if (spec[direction].length === 0) {
      throw new EditError({ message: `\`${spec.name}\` has no ${direction}` });
    }
  }
  const before: Queue = { ...newQueue(queue.from, id), output: queue.output };
  const after: Queue = { ...queue, from: id, output: undefined };
  const detached = detach(flow, new Set([number]));
  const problem = attachProblem(detached, specs, before) ?? attachProblem(detached, specs, after);
  if (problem !== undefined) throw new EditError(problem);
  return { ...flow, queues: flow.queues.toSpliced(number, 1, before, after) };
}

function requireQueue(flow: Flow, number: number): Queue {
  const queue = flow.queues[number];
  if (queue === undefined) throw new EditError({ message: "the queue is not there any more" });
  return queue;
}

/** Renames the flow. */
export function setName(flow: Flow, name: string): Flow {
  return { ...flow, name, unknown: without(flow.unknown, ["name"]) };
}

/** The unknown fields without those of the given names, which an edit replaces. */
export function without(unknown: JsonObject, names: readonly string[]): JsonObject {
  if (!names.some((name) => unknown.has(name))) return unknown;
  return new Map<string, Json>([...unknown].filter(([name]) => !names.includes(name)));
}
