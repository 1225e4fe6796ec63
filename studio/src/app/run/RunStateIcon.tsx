// The state of a run as an icon.

import type { RunEntry } from "../backend/api";

const MARKS: Readonly<Record<RunEntry["state"], string>> = {
  running: "▶",
  done: "✓",
  failed: "✕",
  stopped: "■",
};

/** An icon with the state as its accessible name. */
export function State({ state }: { readonly state: RunEntry["state"] }) {
  return (
    <span className="run-state" data-state={state} role="img" aria-label={state} title={state}>
      {MARKS[state]}
    </span>
  );
}
