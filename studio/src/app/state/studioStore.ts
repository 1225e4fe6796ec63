// Store of the editor: the flow with its undo history, selection, problems and the last refusal.
// Every change of the flow goes through `edit`, so that all of it can be undone.

import { create } from "zustand";
import { check, type Found } from "../../document/check";
import { type Flow, newFlow, type Port } from "../../document/flow";
import { did, type History, historyOf, redo, settled, undo } from "../../document/history";
import { type Position, withPositions } from "../../document/layout";
import { open } from "../../document/openDocument";
import { type Problem, Refusal } from "../../document/problem";
import { BUILT_IN, type Specs } from "../../document/specs";
import type { CheckedQueue } from "../backend/api";
import { arranged, located, renamed } from "./autoLayout";

/** The fixed end of a connection that is being drawn. */
export interface Connecting {
  readonly id: string;
  readonly port: Port | undefined;
  readonly direction: "inputs" | "outputs";
}

export interface Studio {
  readonly specs: Specs;
  readonly history: History;
  /** The flow as it was last opened or saved. */
  readonly saved: Flow;
  /** False if the file could be read in part only: saving must not replace it then. */
  readonly isWhole: boolean;
  readonly places: ReadonlyMap<string, Position>;
  /** Problems found while the file was opened. */
  readonly strange: readonly Problem[];
  /** All problems: found in the page at once, and reported by the engine. */
  readonly problems: readonly Found[];
  /** The engine's last check of the flow. */
  readonly checked: EngineCheck;
  readonly modules: ReadonlySet<string>;
  readonly queues: ReadonlySet<number>;
  /** Counts loaded flows; the canvas fits the view when it changes. */
  readonly begun: number;
  /** Modules selected outside the canvas, which it scrolls into view. */
  readonly sought: ReadonlySet<string>;
  readonly connecting: Connecting | undefined;
  /** Why the last edit or request was refused. */
  readonly refused: Problem | undefined;
}

/** The engine's check of a flow: problems, and the kind and schema of each queue. */
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

/** Whether the flow differs from the saved one; positions do not count. */
export function isDirty({ history, saved }: Studio): boolean {
  const { now } = history;
  if (now === saved) return false;
  return (Object.keys(now) as (keyof Flow)[]).some((key) => {
    return key !== "layout" && now[key] !== saved[key];
  });
}

/** Loads another flow with an empty history. */
export function begin(flow: Flow): void {
  const { specs, begun } = useStudio.getState();
  const problems = check(flow, specs);
  useStudio.setState({ ...started(flow), specs, problems, begun: begun + 1 });
}

/** Loads a document's text, as far as it can be read. */
export function openText(text: string): void {
  const { flow, problems, isWhole } = open(text);
  begin(flow);
  useStudio.setState({ strange: problems, isWhole });
}

/** Replaces the known modules and checks the flow again. */
export function knowModules(specs: Specs): void {
  const { history, checked } = useStudio.getState();
  useStudio.setState({ specs, problems: allProblems(history.now, specs, checked) });
}

/** Stores the engine's check, unless the flow has changed since. */
export function learn(flow: Flow, checked: EngineCheck): void {
  const { history, specs } = useStudio.getState();
  if (history.now !== flow) return;
  useStudio.setState({ checked, problems: allProblems(flow, specs, checked) });
}

/** Merges the page's problems with the engine's, without duplicates. */
function allProblems(flow: Flow, specs: Specs, { problems }: EngineCheck): readonly Found[] {
  const own = check(flow, specs);
  const ids = new Set(flow.modules.map(({ id }) => id));
  const others = problems.filter(({ module, queue, option, message }) => {
    if (module !== undefined && !ids.has(module)) return false;
    if (queue !== undefined && queue >= flow.queues.length) return false;
    return !own.some((found) => {
      // The engine may report for the whole flow what the page reports for one module.
      if (module === undefined && queue === undefined) return found.message === message;
      if (found.module !== module || found.queue !== queue) return false;
      return found.message === message || (option !== undefined && found.option === option);
    });
  });
  return [...own, ...others];
}

/**
 * Applies a change to the flow as an undo step named `what`; consecutive steps with the same
 * `key` merge. Returns false and shows the reason if the change throws an `EditError`.
 */
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

/** Shows why an action was refused, or clears that. */
export function refuse(problem: Problem | undefined): void {
  useStudio.setState({ refused: problem });
}

/** Ends the current undo step, so that the next change starts a new one. */
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

/** Moves modules. Writes all positions into the flow, so that unmoved modules stay in place. */
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

/** Moves all modules to their automatic layout. */
export function arrange(): void {
  edit("lay out", (flow) => withPositions(flow, arranged(flow)));
}

export function select(modules: ReadonlySet<string>, queues: ReadonlySet<number> = NO_QUEUE): void {
  useStudio.setState({ modules, queues });
}

/** Selects modules and scrolls the canvas to them. */
export function seek(modules: ReadonlySet<string>): void {
  useStudio.setState({ modules, queues: NO_QUEUE, sought: modules });
}

/** Replaces the flow by edited code; successive keystrokes are one undo step. */
export function takeCode(take: (flow: Flow) => Flow): void {
  edit("edit the code", take, "code");
}

export function connect(connecting: Connecting | undefined): void {
  useStudio.setState({ connecting });
}

/** Marks a flow as saved: by default the current one. */
export function markSaved(flow = flowNow()): void {
  useStudio.setState({ saved: flow, isWhole: true });
}
