// How a run stands, as a sign.

import type { RunEntry } from "./backend/border";

const MARKS: Readonly<Record<RunEntry["state"], string>> = {
  running: "▶",
  done: "✓",
  failed: "✕",
  stopped: "■",
};

/** How a run stands: a mark and, for whoever hears the page, a word. */
export function State({ state }: { readonly state: RunEntry["state"] }) {
  return (
    <span className="run-state" data-state={state} role="img" aria-label={state} title={state}>
      {MARKS[state]}
    </span>
  );
}
