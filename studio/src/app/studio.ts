// What the studio knows while it is open: the flow and the way to it, what is selected, what was
// refused. Every change of the flow goes through `edit`, so that all of it can be undone.

import { create } from "zustand";
import { check, type Found } from "../document/check";
import { type Flow, newFlow, type Port } from "../document/flow";
import { did, type History, historyOf, redo, settled, undo } from "../document/history";
import { type Position, withPositions } from "../document/layout";
import { open } from "../document/open";
import { type Problem, Refusal } from "../document/problem";
import { BUILT_IN, type Specs } from "../document/specs";
import { arranged, located, renamed } from "./autolayout";
import type { CheckedQueue } from "./backend/border";

/** The end of a queue that is being drawn. */
export interface Connecting {
  readonly id: string;
  readonly port: Port | undefined;
  readonly direction: "inputs" | "outputs";
}

export interface Studio {
  readonly specs: Specs;
  readonly history: History;
  /** The flow as it was opened or saved last. */
  readonly saved: Flow;
  /** Whether all of the file was read; else saving must not replace it. */
  readonly isWhole: boolean;
  readonly places: ReadonlyMap<string, Position>;
  /** What was strange about the file. */
  readonly strange: readonly Problem[];
  /** Everything that is wrong: what the page can tell at once, and what the engine has said. */
  readonly problems: readonly Found[];
  /** What the engine said of the flow last. */
  readonly checked: EngineCheck;
  readonly modules: ReadonlySet<string>;
  readonly queues: ReadonlySet<number>;
  /** How many flows were begun with: another one is shown as a whole. */
  readonly begun: number;
  /** What was selected by other means than the canvas, and is to be seen there. */
  readonly sought: ReadonlySet<string>;
  readonly connecting: Connecting | undefined;
  /** Why the last edit was refused. */
  readonly refused: Problem | undefined;
}

/** What the engine says of a flow: its problems, and what will flow in which queue, and why. */
export interface EngineCheck {
  readonly problems: readonly Found[];
  readonly queues: readonly CheckedQueue[];
}

const NOTHING_SAID: EngineCheck = { problems: [], queues: [] };
const NOBODY: ReadonlySet<string> = new Set();
const NO_QUEUE: ReadonlySet<number> = new Set();

export const useStudio = create<Studio>(() => started(newFlow()));

function started(flow: Flow): Studio {
  return {
    specs: BUILT_IN,
    history: historyOf(flow),
    saved: flow,
    isWhole: true,
    places: located(flow, new Map()),
    strange: [],
    problems: check(flow, BUILT_IN),
    checked: NOTHING_SAID,
    modules: NOBODY,
    queues: NO_QUEUE,
    begun: 0,
    sought: NOBODY,
    connecting: undefined,
    refused: undefined,
  };
}

export function flowNow(): Flow {
  return useStudio.getState().history.now;
}

/** Whether there is something that was not saved; where modules are drawn does not count. */
export function isDirty({ history, saved }: Studio): boolean {
  const { now } = history;
  if (now === saved) return false;
  return (Object.keys(now) as (keyof Flow)[]).some((key) => {
    return key !== "layout" && now[key] !== saved[key];
  });
}

/** Begins with another flow. */
export function begin(flow: Flow): void {
  const { specs, begun } = useStudio.getState();
  const problems = check(flow, specs);
  useStudio.setState({ ...started(flow), specs, problems, begun: begun + 1 });
}

/** Opens the text of a document. */
export function openText(text: string): void {
  const { flow, problems, isWhole } = open(text);
  begin(flow);
  useStudio.setState({ strange: problems, isWhole });
}

/** Learns what modules there are. */
export function knowModules(specs: Specs): void {
  const { history, checked } = useStudio.getState();
  useStudio.setState({ specs, problems: allProblems(history.now, specs, checked) });
}

/** Learns what the engine says of a flow; nothing, if it is not the flow any more. */
export function learn(flow: Flow, checked: EngineCheck): void {
  const { history, specs } = useStudio.getState();
  if (history.now !== flow) return;
  useStudio.setState({ checked, problems: allProblems(flow, specs, checked) });
}

/** What the page finds itself, and what only the engine knows; each once. */
function allProblems(flow: Flow, specs: Specs, { problems }: EngineCheck): readonly Found[] {
  const own = check(flow, specs);
  const ids = new Set(flow.modules.map(({ id }) => id));
  const others = problems.filter(({ module, queue, option, message }) => {
    if (module !== undefined && !ids.has(module)) return false;
    if (queue !== undefined && queue >= flow.queues.length) return false;
    return !own.some((found) => {
      // What is said of the flow as a whole may have been said at its place.
      if (module === undefined && queue === undefined) return found.message === message;
      if (found.module !== module || found.queue !== queue) return false;
      return found.message === message || (option !== undefined && found.option === option);
    });
  });
  return [...own, ...others];
}

/** Edits the flow, and says why not if it cannot be. */
export function edit(what: string, change: (flow: Flow) => Flow, key?: string): boolean {
  const { history } = useStudio.getState();
  try {
    went(did(history, change(history.now), what, key));
    return true;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    refuse(error);
    return false;
  }
}

/** Shows why something cannot be. */
export function refuse(problem: Problem | undefined): void {
  useStudio.setState({ refused: problem });
}

/** Ends a step of several changes: what is typed next is another one. */
export function settle(): void {
  const { history } = useStudio.getState();
  useStudio.setState({ history: settled(history) });
}

export function back(): void {
  went(undo(useStudio.getState().history));
}

export function forward(): void {
  went(redo(useStudio.getState().history));
}

function went(history: History): void {
  const { specs, places, modules, queues, checked, history: before } = useStudio.getState();
  if (history.now === before.now) return;
  const flow = history.now;
  const ids = new Set(flow.modules.map(({ id }) => id));
  useStudio.setState({
    history,
    places: located(flow, renamed(places, before.now, flow)),
    problems: allProblems(flow, specs, checked),
    modules: new Set([...modules].filter((id) => ids.has(id))),
    queues: flow.queues === before.now.queues ? queues : NO_QUEUE,
    refused: undefined,
  });
}

/** Draws modules elsewhere. With the first, all get their place in the flow, so that none jumps. */
export function move(moved: ReadonlyMap<string, Position>): void {
  const { places } = useStudio.getState();
  const isSame = [...moved].every(([id, { x, y }]) => {
    const place = places.get(id);
    return place !== undefined && place.x === Math.round(x) && place.y === Math.round(y);
  });
  if (isSame) return;
  const key = `move ${[...moved.keys()].join(" ")}`;
  edit("move", (flow) => withPositions(flow, new Map([...places, ...moved])), key);
}

/** Draws all modules where the layout puts them. */
export function arrange(): void {
  edit("lay out", (flow) => withPositions(flow, arranged(flow)));
}

export function select(modules: ReadonlySet<string>, queues: ReadonlySet<number> = NO_QUEUE): void {
  useStudio.setState({ modules, queues });
}

/** Selects modules, and has the canvas show them. */
export function seek(modules: ReadonlySet<string>): void {
  useStudio.setState({ modules, queues: NO_QUEUE, sought: modules });
}

/** Takes the flow as the code says it, as one step while it is typed. */
export function takeCode(take: (flow: Flow) => Flow): void {
  edit("edit the code", take, "code");
}

export function connect(connecting: Connecting | undefined): void {
  useStudio.setState({ connecting });
}

/** A flow is saved: what is there now, or what was there when saving began. */
export function markSaved(flow = flowNow()): void {
  useStudio.setState({ saved: flow, isWhole: true });
}
