// Keys that runs and checks use for queues and modules: a queue by its output port, a module by its
// id or that of an internal part.

import type { Flow } from "../../document/flow";
import { attachmentsOf, endsAt, endsOf } from "../../document/ports";
import type { Specs } from "../../document/specs";
import type { PortRef } from "../backend/api";

export function portKey([id, port]: PortRef): string {
  return `${id}\n${port}`;
}

/** The keys of all queues whose output port exists, by position. */
export function queueKeys(flow: Flow, specs: Specs): ReadonlyMap<number, string> {
  const keys = new Map<number, string>();
  const ends = endsOf(flow, "outputs");
  for (const module of flow.modules) {
    for (const { queue, port } of attachmentsOf(specs, module, "outputs", ends)) {
      if (typeof port === "string") keys.set(queue, portKey([module.id, port]));
    }
  }
  return keys;
}

/** The key of the queue at a position. */
export function queueKeyAt(flow: Flow, specs: Specs, number: number): string | undefined {
  const module = flow.modules.find(({ id }) => id === flow.queues[number]?.from);
  if (module === undefined) return undefined;
  const attached = attachmentsOf(specs, module, "outputs", endsAt(flow, "outputs", module.id));
  const port = attached.find(({ queue }) => queue === number)?.port;
  return typeof port === "string" ? portKey([module.id, port]) : undefined;
}

/** The position of the queue with a key. */
export function queuePositionOf(
  flow: Flow,
  specs: Specs,
  key: string | undefined,
): number | undefined {
  return [...queueKeys(flow, specs)].find(([, one]) => one === key)?.[0];
}

/** The module of the flow that an id belongs to: `sort_1` for the part `sort_1_partition`. */
export function visibleModuleId(flow: Flow, id: string): string {
  if (flow.modules.some((module) => module.id === id)) return id;
  return flow.modules.find((module) => id.startsWith(`${module.id}_`))?.id ?? id;
}
