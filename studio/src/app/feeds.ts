// The output that feeds a queue: by it, runs and checks name what is the same queue on the canvas.

import type { Flow } from "../document/flow";
import { attachedTo, endsAt, endsOf } from "../document/ports";
import type { Specs } from "../document/specs";
import { endKey } from "./live";

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
