// A flow that was read from its code takes the place of the one that was drawn. What code does not
// say (where things are drawn, what was not understood) stays with the modules that stay.

import type { Flow } from "./flow";
import { withIds } from "./layout";

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
    modules: read.modules.map((module) => ({
      ...module,
      unknown: known.get(module.id)?.unknown ?? module.unknown,
    })),
    queues: read.queues.map((queue) => {
      const same = drawn.queues.find(({ from, to }) => from === queue.from && to === queue.to);
      return { ...queue, unknown: same?.unknown ?? queue.unknown };
    }),
    layout: read.layout ?? drawn.layout,
    unknown: drawn.unknown,
    strays: drawn.strays,
  };
  const ids = new Set(flow.modules.map(({ id }) => id));
  return withIds(flow, (id) => (ids.has(id) ? id : undefined));
}

/** The flow without what its code need not say: where it is drawn. */
export function undrawn(flow: Flow): Flow {
  return { ...flow, layout: undefined };
}
