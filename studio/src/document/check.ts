// Checks a flow without its data: ports, cycles, options, counts, with the messages of
// crates/flow/src/check.rs. Reports all problems at once, where Rust stops at the first.

import { argumentsOf, customSpecOf, hasNamedArguments } from "./customModules";
import { type Flow, type Module, moduleOf, type Queue, variableName, variablesIn } from "./flow";
import type { JsonObject } from "./json";
import { attachmentsOf, type Direction, type Ends, endOf, endsAt, endsOf, portSide } from "./ports";
import { type Problem, unknownName } from "./problem";
import { valueProblem } from "./schema";
import { optionsOf, requiredOf, type Spec, type Specs, unknownModule } from "./specs";

/** A problem with the part of the flow that it concerns. */
export interface FlowProblem extends Problem {
  /** A module's id. */
  readonly module?: string;
  /** A name among the module's options. */
  readonly option?: string;
  /** A queue's position. */
  readonly queue?: number;
}

/** All problems of a flow. */
export function check(flow: Flow, specs: Specs): FlowProblem[] {
  if (flow.modules.length === 0) {
    return [{ message: "the flow has no modules", remedy: "place one" }];
  }
  return [
    ...missingModules(flow),
    ...ports(flow, specs, "outputs"),
    ...ports(flow, specs, "inputs"),
    ...cycles(flow),
    ...flow.modules.flatMap((module) => {
      const spec = specs.get(module.module);
      if (spec === undefined)
        return [{ ...unknownModule(specs, module.module), module: module.id }];
      const own = customSpecOf(specs, module);
      return [
        ...options(flow, module.id, spec, module.config),
        ...(own && hasNamedArguments(own)
          ? options(flow, module.id, own, argumentsOf(own, module))
          : []),
        ...variables(flow, module),
        ...instances(module, spec),
      ];
    }),
  ];
}

/** Why a queue cannot be attached to an acyclic flow; undefined if it can. */
export function attachProblem(flow: Flow, specs: Specs, queue: Queue): Problem | undefined {
  const attached = { ...flow, queues: [...flow.queues, queue] };
  const number = flow.queues.length;
  const isOfQueue = (found: FlowProblem) => found.queue === number;
  const missing = missingModules(attached).find(isOfQueue);
  if (missing !== undefined) return missing;
  for (const direction of ["outputs", "inputs"] as const) {
    const module = moduleOf(flow, endOf(queue, direction));
    if (module === undefined) continue;
    const ends = endsAt(attached, direction, module.id);
    const found = attachedTwice(attached, specs, module, direction, ends).find(isOfQueue);
    if (found !== undefined) return found;
  }
  const path = pathBetween(flow, queue.to, queue.from);
  return path && cycle(path);
}

/** The modules on a path from one module to another; undefined if there is none. */
function pathBetween(flow: Flow, from: string, to: string): string[] | undefined {
  const ends = endsOf(flow, "outputs");
  const cameFrom = new Map<string, string | undefined>([[from, undefined]]);
  const next = [from];
  for (let id = next.pop(); id !== undefined; id = next.pop()) {
    for (const { queue } of ends.get(id) ?? []) {
      const consumer = flow.queues[queue]?.to ?? "";
      if (cameFrom.has(consumer)) continue;
      cameFrom.set(consumer, id);
      next.push(consumer);
    }
  }
  if (!cameFrom.has(to)) return undefined;
  const path = [to];
  for (let id = cameFrom.get(to); id !== undefined; id = cameFrom.get(id)) path.unshift(id);
  return path;
}

function cycle(ids: Iterable<string>): Problem {
  const message = `the flow has a cycle through ${[...ids].join(", ")}`;
  return { message, remedy: "remove one of the queues between them" };
}

function missingModules(flow: Flow): FlowProblem[] {
  const ids = new Set(flow.modules.map(({ id }) => id));
  return flow.queues.flatMap(({ from, to }, queue) =>
    [...new Set([from, to])]
      .filter((id) => !ids.has(id))
      .map((id) => ({ ...unknownName("module", id, [...ids]), place: "queue", queue })),
  );
}

/** Queues on cycles: what is left after repeatedly removing sources, then sinks. */
function cycles(flow: Flow): FlowProblem[] {
  const left = peelEnds(flow, peelEnds(flow, new Set(flow.modules.map(({ id }) => id)), 0), 1);
  if (left.size === 0) return [];
  return flow.queues.flatMap(({ from, to }, queue) =>
    left.has(from) && left.has(to) ? [{ ...cycle(left), queue }] : [],
  );
}

/** Removes modules without producers (side 0) or without consumers (side 1) until none is left. */
function peelEnds(flow: Flow, ids: ReadonlySet<string>, side: 0 | 1): ReadonlySet<string> {
  const left = new Set(ids);
  const degrees = new Map([...ids].map((id) => [id, 0]));
  const neighbours = new Map<string, string[]>();
  for (const { from, to } of flow.queues) {
    const [near, far] = side === 0 ? [from, to] : [to, from];
    if (!left.has(near) || !left.has(far)) continue;
    degrees.set(far, (degrees.get(far) ?? 0) + 1);
    const known = neighbours.get(near);
    if (known === undefined) neighbours.set(near, [far]);
    else known.push(far);
  }
  const free = [...left].filter((id) => degrees.get(id) === 0);
  for (let id = free.pop(); id !== undefined; id = free.pop()) {
    left.delete(id);
    for (const far of neighbours.get(id) ?? []) {
      const count = (degrees.get(far) ?? 0) - 1;
      degrees.set(far, count);
      if (count === 0) free.push(far);
    }
  }
  return left;
}

/** Checks the options of a module, or the arguments of a custom module. */
function options(flow: Flow, module: string, spec: Spec, given: JsonObject): FlowProblem[] {
  const known = optionsOf(spec);
  const missing = requiredOf(spec)
    .filter((name) => !given.has(name))
    .map((option) => ({ message: `missing field \`${option}\``, module, option }));
  const wrong = [...given].flatMap(([option, value]): FlowProblem[] => {
    const schema = known.get(option);
    const place = { module, option };
    if (schema === undefined)
      return [{ ...unknownName("option", option, [...known.keys()]), ...place }];
    // A variable's default is checked in its place.
    const variable = flow.variables.get(variableName(value) ?? "");
    const message = valueProblem(variable?.default ?? value, schema);
    return message === undefined ? [] : [{ message, ...place }];
  });
  return [...missing, ...wrong];
}

/** Reports variables that are used but not declared. */
function variables(flow: Flow, { id, config }: Module): FlowProblem[] {
  return [...config].flatMap(([option, value]) =>
    [...new Set(variablesIn(value))]
      .filter((name) => !flow.variables.has(name))
      .map((name) => {
        return { ...unknownName("variable", name, [...flow.variables.keys()]), module: id, option };
      }),
  );
}

/** Instances of one module, above the processors of any cluster. */
const INSTANCES_MAX = 65536;

function instances({ id, module, count, per_worker }: Module, spec: Spec): FlowProblem[] {
  if (count !== undefined && per_worker !== undefined) {
    const message = "both `count` and `per_worker` are given";
    return [{ message, remedy: "give one", module: id }];
  }
  const given = count ?? per_worker;
  if (given === 0) return [{ message: "count is 0", remedy: "give at least 1", module: id }];
  if (given !== undefined && given > INSTANCES_MAX) {
    const remedy = `give at most ${INSTANCES_MAX}`;
    return [{ message: `${given} instances are too many`, remedy, module: id }];
  }
  const isParallel = spec.parallel && spec.order !== "ordered";
  // For configured ports, the configuration also decides whether it is parallel.
  const isDecided = spec.inputs !== "configured";
  if (given === undefined || given === 1 || isParallel || !isDecided) return [];
  const message = `\`${module}\` cannot have ${given} instances`;
  return [{ message, remedy: "leave out count", module: id }];
}

/** Reports ports that are attached twice or not at all. */
function ports(flow: Flow, specs: Specs, direction: Direction): FlowProblem[] {
  const ends = endsOf(flow, direction);
  return flow.modules.flatMap((module) => [
    ...attachedTwice(flow, specs, module, direction, ends),
    ...unattached(specs, module, direction, ends),
  ]);
}

function attachedTwice(
  flow: Flow,
  specs: Specs,
  module: Module,
  direction: Direction,
  ends: Ends,
): FlowProblem[] {
  const taken = new Map<string, string>();
  const place = `module ${module.id}`;
  return attachmentsOf(specs, module, direction, ends).flatMap(({ queue, port }): FlowProblem[] => {
    if (typeof port !== "string") return [{ ...port, place, queue }];
    const to = flow.queues[queue]?.to ?? "";
    const other = taken.get(port);
    taken.set(port, to);
    if (other === undefined) return [];
    const isOutput = direction === "outputs";
    const message = isOutput
      ? `output \`${port}\` is attached to \`${other}\` and to \`${to}\``
      : `input \`${port}\` is attached twice`;
    const remedy = isOutput ? "place a `tee` between them" : "place a `union` before it";
    return [{ message, remedy, place, queue }];
  });
}

function unattached(specs: Specs, module: Module, direction: Direction, ends: Ends): FlowProblem[] {
  const { names, isOpen } = portSide(specs, module, direction, ends);
  const isOutput = direction === "outputs";
  const attached = attachmentsOf(specs, module, direction, ends).map(({ port }) => port);
  if (isOpen) {
    if (attached.length > 0 || names.length > 0) return [];
    const message = `no ${isOutput ? "output" : "input"} is attached`;
    return [{ message, remedy: "attach at least one", module: module.id }];
  }
  const missing = names.find((name) => !attached.includes(name));
  if (missing === undefined) return [];
  const message = isOutput
    ? `output \`${missing}\` goes nowhere`
    : `input \`${missing}\` is not attached`;
  const remedy = isOutput
    ? "attach it to a module, for example `collect` or `save`"
    : `flow.attach(…, ${module.id})`;
  return [{ message, remedy, module: module.id }];
}
