// Store of the editor: the flow with its undo history, selection, problems and the last refusal.
// Every change of the flow goes through `edit`, so that all of it can be undone.

import { create } from "zustand";
import { check, type FlowProblem } from "../../document/check";
import { codeBlocksOf } from "../../document/code/codeBlocks";
import { type Flow, newFlow, type Port } from "../../document/flow";
import { entriesOf } from "../../document/groups";
import { closeStep, type History, newHistory, pushStep, redo, undo } from "../../document/history";
import { sameJson } from "../../document/json";
import { type Position, positionsOf, withPositions } from "../../document/layout";
import { openDocument } from "../../document/openDocument";
import { EditError, type Problem } from "../../document/problem";
import { BUILT_IN, type Specs } from "../../document/specs";
import type { CheckedQueue, Column } from "../backend/api";
import { autoLayout, carryPositions, resolvePositions } from "./autoLayout";
import { canvasAspect } from "./viewStore";

/** The fixed end of a connection that is being drawn. */
export interface PendingConnection {
  readonly id: string;
  readonly port: Port | undefined;
  readonly direction: "inputs" | "outputs";
}

export interface StudioState {
  readonly specs: Specs;
  readonly history: History;
  /** The flow as it was last opened or saved. */
  readonly saved: Flow;
  /** False if the file could be read in part only: saving must not replace it then. */
  readonly isComplete: boolean;
  readonly positions: ReadonlyMap<string, Position>;
  /** Problems found while the file was opened. */
  readonly openProblems: readonly Problem[];
  /** All problems: found in the page at once, and reported by the engine. */
  readonly problems: readonly FlowProblem[];
  /** The engine's last check of the flow. */
  readonly engineCheck: EngineCheck;
  readonly selectedModules: ReadonlySet<string>;
  readonly selectedQueues: ReadonlySet<number>;
  /** Counts loaded flows; the canvas fits the view when it changes. */
  readonly loadCount: number;
  /** Modules selected outside the canvas, which it scrolls into view. */
  readonly revealed: ReadonlySet<string>;
  /** The option whose field takes the focus next. */
  readonly revealedOption: RevealedOption | undefined;
  readonly connecting: PendingConnection | undefined;
  /** Why the last edit or request was refused. */
  readonly refusal: Problem | undefined;
}

/** An option of a module. */
export interface RevealedOption {
  readonly module: string;
  readonly option: string;
}

/** The engine's check of a flow: problems, and the kind and schema of each queue. */
export interface EngineCheck {
  readonly problems: readonly FlowProblem[];
  readonly queues: readonly CheckedQueue[];
  /** The schema of each output by `portKey`, also where the consumer is not configured yet. */
  readonly outputs?: ReadonlyMap<string, readonly Column[]>;
}

const NOT_CHECKED: EngineCheck = { problems: [], queues: [] };
const NO_MODULES: ReadonlySet<string> = new Set();
const NO_QUEUES: ReadonlySet<number> = new Set();

export const useStudio = create<StudioState>(() => initialState(newFlow()));

function initialState(flow: Flow): StudioState {
  return {
    specs: BUILT_IN,
    history: newHistory(flow),
    saved: flow,
    isComplete: true,
    positions: resolvePositions(flow, new Map(), canvasAspect()),
    openProblems: [],
    problems: check(flow, BUILT_IN),
    engineCheck: NOT_CHECKED,
    selectedModules: NO_MODULES,
    selectedQueues: NO_QUEUES,
    loadCount: 0,
    revealed: NO_MODULES,
    revealedOption: undefined,
    connecting: undefined,
    refusal: undefined,
  };
}

export function currentFlow(): Flow {
  return useStudio.getState().history.now;
}

/** Whether the flow differs from the saved one; positions do not count. */
export function isDirty({ history, saved }: StudioState): boolean {
  const { now } = history;
  if (now === saved) return false;
  if (!sameJson(new Map(codeBlocksOf(now)), new Map(codeBlocksOf(saved)))) return true;
  if (!sameJson(entriesOf(now), entriesOf(saved))) return true;
  return (Object.keys(now) as (keyof Flow)[]).some((key) => {
    return key !== "layout" && now[key] !== saved[key];
  });
}

/** Loads another flow with an empty history. */
export function loadFlow(flow: Flow): void {
  const { specs, loadCount } = useStudio.getState();
  const problems = check(flow, specs);
  useStudio.setState({ ...initialState(flow), specs, problems, loadCount: loadCount + 1 });
}

/** Loads a document's text, as far as it can be read. */
export function loadDocument(text: string): void {
  const { flow, problems, isComplete } = openDocument(text);
  loadFlow(flow);
  useStudio.setState({ openProblems: problems, isComplete });
}

/** Replaces the known modules and checks the flow again. */
export function setSpecs(specs: Specs): void {
  const { history, engineCheck } = useStudio.getState();
  useStudio.setState({ specs, problems: mergeProblems(history.now, specs, engineCheck) });
}

/** Stores the engine's check, unless the flow has changed since. */
export function setEngineCheck(flow: Flow, engineCheck: EngineCheck): void {
  const { history, specs } = useStudio.getState();
  if (history.now !== flow) return;
  useStudio.setState({ engineCheck, problems: mergeProblems(flow, specs, engineCheck) });
}

/** Merges the page's problems with the engine's, without duplicates. */
function mergeProblems(
  flow: Flow,
  specs: Specs,
  { problems }: EngineCheck,
): readonly FlowProblem[] {
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
    applyHistory(pushStep(history, change(history.now), what, key));
    return true;
  } catch (error) {
    if (!(error instanceof EditError)) throw error;
    setRefusal(error);
    return false;
  }
}

/** Shows why an action was refused, or clears that. */
export function setRefusal(problem: Problem | undefined): void {
  useStudio.setState({ refusal: problem });
}

/** Ends the current undo step, so that the next change starts a new one. */
export function endStep(): void {
  const { history } = useStudio.getState();
  useStudio.setState({ history: closeStep(history) });
}

export function undoEdit(): void {
  applyHistory(undo(useStudio.getState().history));
}

export function redoEdit(): void {
  applyHistory(redo(useStudio.getState().history));
}

function applyHistory(history: History): void {
  const {
    specs,
    positions,
    selectedModules,
    selectedQueues,
    engineCheck,
    history: before,
  } = useStudio.getState();
  if (history.now === before.now) return;
  const flow = history.now;
  const ids = new Set(flow.modules.map(({ id }) => id));
  useStudio.setState({
    history,
    positions: resolvePositions(flow, carryPositions(positions, before.now, flow), canvasAspect()),
    problems: mergeProblems(flow, specs, engineCheck),
    selectedModules: new Set([...selectedModules].filter((id) => ids.has(id))),
    selectedQueues: flow.queues === before.now.queues ? selectedQueues : NO_QUEUES,
    refusal: undefined,
  });
}

/** Moves modules. Writes all positions into the flow, so that unmoved modules stay in place. */
export function moveModules(moved: ReadonlyMap<string, Position>): void {
  const { positions } = useStudio.getState();
  const isSame = [...moved].every(([id, { x, y }]) => {
    const old = positions.get(id);
    return old !== undefined && old.x === Math.round(x) && old.y === Math.round(y);
  });
  if (isSame) return;
  keepPositions();
  const key = `move ${[...moved.keys()].join(" ")}`;
  edit("move", (flow) => withPositions(flow, new Map([...positions, ...moved])), key);
}

/** Writes the positions into the present flow, without a step, so that a move can be undone. */
function keepPositions(): void {
  const { history, positions } = useStudio.getState();
  const known = positionsOf(history.now);
  if (history.now.modules.every(({ id }) => known.has(id))) return;
  const now = withPositions(history.now, positions);
  useStudio.setState({ history: { ...history, now } });
}

/** Moves all modules to their automatic layout. */
export function autoLayoutFlow(): void {
  keepPositions();
  edit("lay out", (flow) => withPositions(flow, autoLayout(flow, canvasAspect())));
}

export function setSelection(
  selectedModules: ReadonlySet<string>,
  selectedQueues: ReadonlySet<number> = NO_QUEUES,
): void {
  useStudio.setState({ selectedModules, selectedQueues });
}

/** Selects modules and scrolls the canvas to them. */
export function revealModules(selectedModules: ReadonlySet<string>): void {
  useStudio.setState({ selectedModules, selectedQueues: NO_QUEUES, revealed: selectedModules });
}

/** Selects a module and gives the focus to the field of one of its options. */
export function revealOption(revealedOption: RevealedOption): void {
  revealModules(new Set([revealedOption.module]));
  useStudio.setState({ revealedOption });
}

/** Replaces the flow by edited code; successive keystrokes are one undo step. */
export function applyCode(take: (flow: Flow) => Flow): void {
  const isFirst = currentFlow().modules.length === 0;
  edit("edit the code", take, "code");
  // The first modules have no place on the canvas that was chosen for them.
  if (isFirst) useStudio.setState({ revealed: new Set(currentFlow().modules.map(({ id }) => id)) });
}

export function setConnecting(connecting: PendingConnection | undefined): void {
  useStudio.setState({ connecting });
}

/** Marks a flow as saved: by default the current one. */
export function markSaved(flow = currentFlow()): void {
  useStudio.setState({ saved: flow, isComplete: true });
}
