// The state of a run as an icon.

import type { RunEntry } from "../backend/api";

const ICONS: Readonly<Record<RunEntry["state"], string>> = {
  running: "▶",
  done: "✓",
  failed: "✕",
  stopped: "■",
};

/** An icon with the state as its accessible name. */
export function RunStateIcon({ state }: { readonly state: RunEntry["state"] }) {
  return (
    <span className="run-state" data-state={state} role="img" aria-label={state} title={state}>
      {ICONS[state]}
    </span>
  );
}
