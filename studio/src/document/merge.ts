// A flow that was read from its code takes the place of the one that was drawn. What code does not
// say (where things are drawn, what was not understood) stays with the modules that stay.

import type { Flow, Queue } from "./flow";
import { sameJson } from "./json";
import { withIds } from "./layout";
import { module as moduleJson, queue as queueJson } from "./write";

/** The flow as the code says it, with what the drawn one knows besides. */
export function merged(drawn: Flow, read: Flow): Flow {
  const known = new Map(drawn.modules.map((module) => [module.id, module]));
  const flow: Flow = {
    ...read,
    version: drawn.version,
    variables: new Map(
      [...read.variables].map(([name, variable]) => {
        const unknown = drawn.variables.get(name)?.unknown ?? variable.unknown;
        return [name, { ...variable, unknown }];
      }),
    ),
    modules: read.modules.map((module) => {
      const old = known.get(module.id);
      const now = { ...module, unknown: old?.unknown ?? module.unknown };
      // What says the same is the same, so that only what has changed is drawn anew.
      return old !== undefined && sameJson(moduleJson(old), moduleJson(now)) ? old : now;
    }),
    queues: queuesOf(drawn, read),
    layout: read.layout ?? drawn.layout,
    unknown: drawn.unknown,
    strays: drawn.strays,
  };
  const ids = new Set(flow.modules.map(({ id }) => id));
  return withIds(flow, (id) => (ids.has(id) ? id : undefined));
}

function queuesOf(drawn: Flow, read: Flow): Flow["queues"] {
  const known = new Map(drawn.queues.map((queue) => [endsOf(queue), queue]));
  const queues = read.queues.map((queue) => {
    const old = known.get(endsOf(queue));
    const now = { ...queue, unknown: old?.unknown ?? queue.unknown };
    return old !== undefined && sameJson(queueJson(old), queueJson(now)) ? old : now;
  });
  const isSame =
    queues.length === drawn.queues.length && queues.every((queue, i) => queue === drawn.queues[i]);
  return isSame ? drawn.queues : queues;
}

function endsOf({ from, to, output, input }: Queue): string {
  return JSON.stringify([from, to, output, input]);
}

/** The flow without what its code need not say: where it is drawn. */
export function undrawn(flow: Flow): Flow {
  return { ...flow, layout: undefined };
}
