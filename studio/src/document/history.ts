// Undo history. Flows are immutable, so a step is the flow before it, sharing unchanged parts.

import type { Flow } from "./flow";

/** A flow with its undo and redo steps. */
export interface History {
  readonly now: Flow;
  readonly past: readonly Step[];
  readonly future: readonly Step[];
}

/** An edit, with the flow before it (in `past`) or after it (in `future`). */
export interface Step {
  readonly flow: Flow;
  /** The edit's label: `place filter_1`. */
  readonly label: string;
  /** Consecutive steps with the same key merge: typed letters, moves of one drag. */
  readonly key?: string | undefined;
}

/** Undo steps kept. */
export const STEPS_MAX = 1000;

export function newHistory(flow: Flow): History {
  return { now: flow, past: [], future: [] };
}

/** Appends an edit, merged with the last one if their keys are equal. */
export function pushStep(history: History, flow: Flow, label: string, key?: string): History {
  if (flow === history.now) return history;
  const last = history.past.at(-1);
  const isSame = key !== undefined && last?.key === key;
  const past = isSame ? history.past : [...history.past, { flow: history.now, label, key }];
  return { now: flow, past: past.slice(-STEPS_MAX), future: [] };
}

/** Clears the last step's key, so that the next edit starts a new step. */
export function closeStep(history: History): History {
  const last = history.past.at(-1);
  if (last?.key === undefined) return history;
  return { ...history, past: [...history.past.slice(0, -1), { ...last, key: undefined }] };
}

/** Undoes one step; without any, returns the same history. */
export function undo(history: History): History {
  const last = history.past.at(-1);
  if (last === undefined) return history;
  const future = [...history.future, { flow: history.now, label: last.label }];
  return { now: last.flow, past: history.past.slice(0, -1), future };
}

/** Redoes one step; without any, returns the same history. */
export function redo(history: History): History {
  const next = history.future.at(-1);
  if (next === undefined) return history;
  const past = [...history.past, { flow: history.now, label: next.label }];
  return { now: next.flow, past, future: history.future.slice(0, -1) };
}
