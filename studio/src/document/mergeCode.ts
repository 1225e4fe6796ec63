// Merges a flow parsed from code into the current one: what code does not express (layout, unknown
// fields) is kept for the modules that remain.

import { codeBlocksOf, NO_BLOCKS, withCodeBlocks } from "./code/codeBlocks";
import type { Flow, Queue } from "./flow";
import { sameJson } from "./json";
import { renamePositions } from "./layout";
import { moduleJson, queueJson } from "./writeDocument";

/** The parsed flow with the current one's layout and unknown fields. */
export function mergeCode(drawn: Flow, read: Flow): Flow {
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
      // Equal modules stay the same object, so that only changed ones re-render.
      return old !== undefined && sameJson(moduleJson(old), moduleJson(now)) ? old : now;
    }),
    queues: mergeQueues(drawn, read),
    layout: withCodeBlocks(read, NO_BLOCKS).layout ?? drawn.layout,
    unknown: drawn.unknown,
    strays: drawn.strays,
  };
  const ids = new Set(flow.modules.map(({ id }) => id));
  const kept = withCodeBlocks(flow, codeBlocksOf(read));
  return renamePositions(kept, (id) => (ids.has(id) ? id : undefined));
}

function mergeQueues(drawn: Flow, read: Flow): Flow["queues"] {
  const known = new Map(drawn.queues.map((queue) => [endsKey(queue), queue]));
  const queues = read.queues.map((queue) => {
    const old = known.get(endsKey(queue));
    const now = { ...queue, unknown: old?.unknown ?? queue.unknown };
    return old !== undefined && sameJson(queueJson(old), queueJson(now)) ? old : now;
  });
  const isSame =
    queues.length === drawn.queues.length && queues.every((queue, i) => queue === drawn.queues[i]);
  return isSame ? drawn.queues : queues;
}

function endsKey({ from, to, output, input }: Queue): string {
  return JSON.stringify([from, to, output, input]);
}

/** The flow without its layout, as code shows it. */
export function withoutLayout(flow: Flow): Flow {
  return { ...flow, layout: undefined };
}
