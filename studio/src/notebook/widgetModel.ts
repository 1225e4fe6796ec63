// Synchronizes the widget's state, set by Python, with the stores that the views read.

import type { Failure, Report, Run } from "../app/backend/api";
import { show, take, useLive } from "../app/state/liveStore";
import { flowNow, knowModules, openText } from "../app/state/studioStore";
import { BUILT_IN, type Spec, specsOf } from "../document/specs";

/** Commands that the view sends to Python. */
export type Wish = "run" | "stop";

/** The widget's state, shared by all of its views and changed by Python only. */
export interface Model {
  readonly get: (name: string) => unknown;
  readonly on: (event: string, act: () => void) => void;
  readonly off: (event: string, act: () => void) => void;
  readonly send: (content: Readonly<Record<string, unknown>>) => void;
}

/** A run as Python sends it. */
type Told = Omit<Run, "flow" | "log" | "failure" | "report"> & {
  readonly failure?: Failure;
  readonly report?: Report & Pick<Run, "history">;
};

/** Follows the model; returns the function that stops it. */
export function feed(model: Model): () => void {
  const draw = () => {
    const own: readonly Spec[] = JSON.parse(textOf(model, "modules"));
    knowModules(specsOf([...BUILT_IN.values(), ...own]));
    openText(textOf(model, "document"));
  };
  const follow = () => showRun(textOf(model, "status"), textOf(model, "progress"));
  const hear = () => {
    const progress = textOf(model, "progress");
    if (progress !== "") take(JSON.parse(progress));
    // Acknowledges the message: Python sends less often to views that do not.
    model.send({ seen: true });
  };
  const heard = {
    "change:modules": draw,
    "change:document": draw,
    "change:status": follow,
    "change:progress": hear,
  };
  for (const [event, act] of Object.entries(heard)) model.on(event, act);
  draw();
  follow();
  return () => {
    for (const [event, act] of Object.entries(heard)) model.off(event, act);
  };
}

function textOf(model: Model, name: string): string {
  const text = model.get(name);
  return typeof text === "string" ? text : "";
}

function showRun(status: string, progress: string): void {
  if (status === "") {
    show(undefined);
    return;
  }
  const told: Told = JSON.parse(status);
  const run: Run = { ...told, flow: flowNow(), log: [], history: told.report?.history };
  // A new view restores the history; an open one has it already.
  if (useLive.getState().run?.id === run.id) useLive.setState({ run });
  else show(run);
  if (progress !== "") take(JSON.parse(progress));
}
