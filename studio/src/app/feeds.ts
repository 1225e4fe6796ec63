// How runs and checks name what is on the canvas: a queue by the output that feeds it, and a module
// by its id, or by that of a part of it which nobody has drawn.

import type { Flow } from "../document/flow";
import { attachedTo, endsAt, endsOf } from "../document/ports";
import type { Specs } from "../document/specs";
import type { End } from "./backend/border";

export function endKey([id, port]: End): string {
  return `${id}\n${port}`;
}

/** Of every queue whose output is known, by its position. */
export function feedsOf(flow: Flow, specs: Specs): ReadonlyMap<number, string> {
  const feeds = new Map<number, string>();
  const ends = endsOf(flow, "outputs");
  for (const module of flow.modules) {
    for (const { queue, port } of attachedTo(specs, module, "outputs", ends)) {
      if (typeof port === "string") feeds.set(queue, endKey([module.id, port]));
    }
  }
  return feeds;
}

/** Of one queue. */
export function feedOf(flow: Flow, specs: Specs, number: number): string | undefined {
  const module = flow.modules.find(({ id }) => id === flow.queues[number]?.from);
  if (module === undefined) return undefined;
  const attached = attachedTo(specs, module, "outputs", endsAt(flow, "outputs", module.id));
  const port = attached.find(({ queue }) => queue === number)?.port;
  return typeof port === "string" ? endKey([module.id, port]) : undefined;
}

/** The position of the queue that an output feeds. */
export function numberOf(flow: Flow, specs: Specs, feed: string | undefined): number | undefined {
  return [...feedsOf(flow, specs)].find(([, one]) => one === feed)?.[0];
}

/** The module that is drawn for this one: of `sort_1_partition`, it is `sort_1`. */
export function drawnFor(flow: Flow, id: string): string {
  if (flow.modules.some((module) => module.id === id)) return id;
  return flow.modules.find((module) => id.startsWith(`${module.id}_`))?.id ?? id;
}
