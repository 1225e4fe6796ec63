// The flow that a preview runs: what leads to a queue, on the first rows of each source, without
// any sink, so that a preview writes nothing.

import { specFor } from "../../document/customModules";
import {
  type Flow,
  idsOf,
  type Module,
  moduleOf,
  newModule,
  newQueue,
  nextId,
  type Queue,
} from "../../document/flow";
import type { Specs } from "../../document/specs";

/** Rows that are read of each source, and rows that are shown. */
export const SOURCE_ROWS = 10_000;
export const SHOWN_ROWS = 100;

export interface SampleFlow {
  readonly flow: Flow;
  /** The module that collects the rows of the queue. */
  readonly collector: string;
}

/** The flow that collects the first rows of the queue at a position. */
export function sampleFlow(flow: Flow, specs: Specs, number: number): SampleFlow | undefined {
  const shown = flow.queues[number];
  if (shown === undefined || moduleOf(flow, shown.from) === undefined) return undefined;
  const needed = producersOf(flow, shown.from);
  const ids = idsOf(flow);
  const added: Module[] = [];
  const add = (module: string, config: Record<string, number> = {}) => {
    const id = nextId(ids, module);
    ids.add(id);
    added.push(newModule(id, module, new Map(Object.entries(config))));
    return id;
  };
  const isSource = (id: string) => {
    const module = moduleOf(flow, id);
    const inputs = module && specFor(specs, module)?.inputs;
    return Array.isArray(inputs) && inputs.length === 0;
  };
  let collector = "";
  const queues = flow.queues.flatMap((queue, at): readonly Queue[] => {
    if (!needed.has(queue.from)) return [];
    const isShown = at === number;
    const isNeeded = !isShown && needed.has(queue.to);
    if (isNeeded && !isSource(queue.from)) return [queue];
    const rows = isShown ? SHOWN_ROWS : isNeeded ? SOURCE_ROWS : 0;
    const limit = add("limit", { rows });
    const first: Queue = { ...queue, to: limit, input: undefined, queue: undefined };
    if (isNeeded) return [first, { ...newQueue(limit, queue.to), input: queue.input }];
    // Outputs that lead elsewhere end at once, so that each output stays attached.
    const collect = add("collect");
    if (isShown) collector = collect;
    return [first, newQueue(limit, collect)];
  });
  const kept = flow.modules.filter(({ id }) => needed.has(id));
  const name = `preview of ${shown.from}`;
  return {
    flow: { ...flow, name, modules: [...kept, ...added], queues, layout: undefined },
    collector,
  };
}

/** The module and all that it reads from, directly or not. */
function producersOf(flow: Flow, id: string): ReadonlySet<string> {
  const found = new Set([id]);
  for (const one of found) {
    for (const { from, to } of flow.queues) if (to === one) found.add(from);
  }
  return found;
}
