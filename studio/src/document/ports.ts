// The ports of a module and the ports that queues attach to, by the rules of
// crates/flow/src/check.rs.

import { specFor } from "./customModules";
import type { Flow, Module, Port, Queue } from "./flow";
import { type Problem, unknownName } from "./problem";
import type { PortNames, Specs } from "./specs";

export type Direction = "inputs" | "outputs";

/** The ports on one side of a module. */
export interface PortSide {
  readonly names: readonly string[];
  /** Whether there may be more ports than named: `many` or `configured` ones. */
  readonly isOpen: boolean;
}

/** The end of a queue at a module. */
export interface Attachment {
  /** The queue's position in the flow. */
  readonly queue: number;
  /** The port's name, or why there is no such port. */
  readonly port: string | Problem;
}

export function endOf(queue: Queue, direction: Direction): string {
  return direction === "outputs" ? queue.from : queue.to;
}

export function portOf(queue: Queue, direction: Direction): Port | undefined {
  return direction === "outputs" ? queue.output : queue.input;
}

/** The ends of queues on one side, by module id, in order of attachment. */
export type Ends = ReadonlyMap<string, readonly { readonly queue: number; readonly port?: Port }[]>;

export function endsOf(flow: Flow, direction: Direction): Ends {
  const ends = new Map<string, { queue: number; port?: Port }[]>();
  flow.queues.forEach((queue, number) => {
    const [id, port] = [endOf(queue, direction), portOf(queue, direction)];
    const end = port === undefined ? { queue: number } : { queue: number, port };
    const known = ends.get(id);
    if (known === undefined) ends.set(id, [end]);
    else known.push(end);
  });
  return ends;
}

/** The ends of queues at one module only. */
export function endsAt(flow: Flow, direction: Direction, id: string): Ends {
  const ends = flow.queues.flatMap((queue, number) => {
    if (endOf(queue, direction) !== id) return [];
    const port = portOf(queue, direction);
    return [port === undefined ? { queue: number } : { queue: number, port }];
  });
  return new Map([[id, ends]]);
}

/** The ports on one side of a module. */
export function portSide(specs: Specs, module: Module, direction: Direction, ends: Ends): PortSide {
  const names: PortNames = specFor(specs, module)?.[direction] ?? "configured";
  const attached = ends.get(module.id) ?? [];
  if (names === "many") return { names: attached.map((_, i) => String(i)), isOpen: true };
  if (names !== "configured") return { names, isOpen: false };
  // Only the engine knows configured ports; those that the flow names are assumed to exist.
  const named = attached.map(({ port }) => String(port ?? 0));
  return { names: [...new Set(["0", ...named])], isOpen: true };
}

/** The port of each queue on one side of a module. */
export function attachmentsOf(
  specs: Specs,
  module: Module,
  direction: Direction,
  ends: Ends,
): Attachment[] {
  const isMany = specFor(specs, module)?.[direction] === "many";
  const { names, isOpen } = portSide(specs, module, direction, ends);
  let next = 0;
  const named = (port: Port | undefined): string | Problem => {
    if (typeof port === "number") return names[port] ?? outOfRange(port, names.length);
    if (port !== undefined) return names.includes(port) ? port : unknownName("port", port, names);
    const first = names[isMany ? next++ : 0];
    return first ?? { message: `\`${module.module}\` has no ${direction}` };
  };
  const found = (port: Port | undefined) => (isOpen && !isMany ? String(port ?? 0) : named(port));
  return (ends.get(module.id) ?? []).map(({ queue, port }) => ({ queue, port: found(port) }));
}

function outOfRange(port: number, count: number): Problem {
  return { message: `port ${port} of a module that has ${count}` };
}
