// Undo and redo over everything. A flow is never changed, so each step is simply the flow before
// it, and what two flows have in common is held once.

import type { Flow } from "./flow";

/** A flow and the way to it. */
export interface History {
  readonly now: Flow;
  readonly past: readonly Step[];
  readonly future: readonly Step[];
}

/** What was done, and the flow before it (in the past) or after it (in the future). */
export interface Step {
  readonly flow: Flow;
  /** In words: `place filter_1`. */
  readonly what: string;
  /** Steps in a row with the same key are one: the letters of a word, the path of a drag. */
  readonly key?: string | undefined;
}

/** More steps than anybody goes back. */
export const STEPS_MAX = 1000;

export function historyOf(flow: Flow): History {
  return { now: flow, past: [], future: [] };
}

/** Goes on to another flow. */
export function did(history: History, flow: Flow, what: string, key?: string): History {
  if (flow === history.now) return history;
  const last = history.past.at(-1);
  const isSame = key !== undefined && last?.key === key;
  const past = isSame ? history.past : [...history.past, { flow: history.now, what, key }];
  return { now: flow, past: past.slice(-STEPS_MAX), future: [] };
}

/** Ends a step: what comes is another, whatever its key. */
export function settled(history: History): History {
  const last = history.past.at(-1);
  if (last?.key === undefined) return history;
  return { ...history, past: [...history.past.slice(0, -1), { ...last, key: undefined }] };
}

/** One step back, if there is one. */
export function undo(history: History): History {
  const last = history.past.at(-1);
  if (last === undefined) return history;
  const future = [...history.future, { flow: history.now, what: last.what }];
  return { now: last.flow, past: history.past.slice(0, -1), future };
}

/** One step forward again. */
export function redo(history: History): History {
  const next = history.future.at(-1);
  if (next === undefined) return history;
  const past = [...history.past, { flow: history.now, what: next.what }];
  return { now: next.flow, past, future: history.future.slice(0, -1) };
}
