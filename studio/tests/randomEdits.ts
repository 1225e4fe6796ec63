// Random edits of every kind, for property tests of history and edits.

import { copyModules, pasteText } from "../src/document/clipboard";
import {
  bind,
  removeVariable,
  renameVariable,
  setOption,
  setVariable,
  unbind,
} from "../src/document/configEdits";
import {
  attach,
  changeQueue,
  detach,
  place,
  queueBetween,
  removeModules,
  rename,
  setInstances,
  setName,
  splice,
} from "../src/document/edits";
import { type Flow, QUEUE_KINDS } from "../src/document/flow";
import { addGroup, changeGroup, removeGroup } from "../src/document/groups";
import { withPositions } from "../src/document/layout";
import { EditError } from "../src/document/problem";
import { BUILT_IN, optionsOf } from "../src/document/specs";
import type { Random } from "./randomFlow";

type Edit = (flow: Flow, random: Random) => Flow;

const EDITS: Readonly<Record<string, Edit>> = {
  place: (flow, random) => place(flow, random.pick([...BUILT_IN.keys()])).flow,
  remove: (flow, random) => removeModules(flow, new Set([some(flow, random)])),
  rename: (flow, random) => rename(flow, some(flow, random), random.text()),
  attach(flow, random) {
    const end = () => ({ id: some(flow, random), port: random.maybe(() => random.below(2)) });
    return attach(flow, BUILT_IN, queueBetween(flow, BUILT_IN, end(), end()));
  },
  detach: (flow, random) => detach(flow, new Set([random.below(flow.queues.length)])),
  splice: (flow, random) =>
    splice(flow, BUILT_IN, random.below(flow.queues.length), some(flow, random)),
  option: (flow, random) =>
    setOption(flow, some(flow, random), option(flow, random), random.json()),
  leave: (flow, random) => setOption(flow, some(flow, random), option(flow, random), undefined),
  count: (flow, random) => setInstances(flow, some(flow, random), { count: random.below(9) }),
  perWorker: (flow, random) => setInstances(flow, some(flow, random), { per_worker: 2 }),
  workers: (flow, random) =>
    setInstances(flow, some(flow, random), { workers: random.some(2, () => random.text()) }),
  queue: (flow, random) =>
    changeQueue(flow, random.below(flow.queues.length), { queue: random.pick(QUEUE_KINDS) }),
  bytes: (flow, random) =>
    changeQueue(flow, random.below(flow.queues.length), { bytes_max: 1 + random.below(1e9) }),
  move: (flow, random) =>
    withPositions(flow, new Map([[some(flow, random), { x: random.below(900), y: -7.5 }]])),
  group: (flow, random) => addGroup(flow, new Set([some(flow, random), some(flow, random)])),
  note: (flow, random) =>
    changeGroup(flow, random.below(3), { note: random.text(), isFolded: random.chance(0.5) }),
  ungroup: (flow, random) => removeGroup(flow, random.below(3)),
  name: (flow, random) => setName(flow, random.text()),
  declare: (flow, random) =>
    setVariable(flow, random.text(), { default: random.json() ?? undefined }),
  bind: (flow, random) => bind(flow, some(flow, random), option(flow, random), random.text()),
  unbind: (flow, random) => unbind(flow, some(flow, random), option(flow, random)),
  renameVariable: (flow, random) => renameVariable(flow, variable(flow, random), random.text()),
  removeVariable: (flow, random) => removeVariable(flow, variable(flow, random)),
  duplicate(flow, random) {
    const ids = new Set([some(flow, random), some(flow, random)]);
    return pasteText(flow, BUILT_IN, copyModules(flow, ids), { x: 20, y: 20 }).flow;
  },
};

/** Applies a random edit; returns the flow unchanged if it is refused. */
export function randomEdit(
  flow: Flow,
  random: Random,
): { flow: Flow; what: string; isRefused: boolean } {
  const what = random.pick(flow.modules.length === 0 ? ["place"] : Object.keys(EDITS));
  try {
    return { flow: EDITS[what]?.(flow, random) ?? flow, what, isRefused: false };
  } catch (error) {
    if (!(error instanceof EditError)) throw error;
    return { flow, what, isRefused: true };
  }
}

function some(flow: Flow, random: Random): string {
  return random.pick(flow.modules).id;
}

function variable(flow: Flow, random: Random): string {
  return random.pick([...flow.variables.keys(), "x"]);
}

function option(flow: Flow, random: Random): string {
  const { module } = random.pick(flow.modules);
  return random.pick([...optionsOf(BUILT_IN.get(module)).keys(), "x"]);
}
