// What the notebook's Python says of its flow and of the last run of it, taken into the stores that
// the page's own parts show. Nothing of it is computed here.

import type { Failure, Report, Run } from "../app/backend/border";
import { show, take, useLive } from "../app/live";
import { flowNow, knowModules, openText } from "../app/studio";
import { BUILT_IN, type Spec, specsOf } from "../document/specs";

/** What a notebook may ask for. */
export type Wish = "run" | "stop";

/** The widget's state, which all places that show it share; changed by Python alone. */
export interface Model {
  readonly get: (name: string) => unknown;
  readonly on: (event: string, act: () => void) => void;
  readonly off: (event: string, act: () => void) => void;
  readonly send: (content: Readonly<Record<string, unknown>>) => void;
}

/** A run, as Python tells it. */
type Told = Omit<Run, "flow" | "log" | "failure" | "report"> & {
  readonly failure?: Failure;
  readonly report?: Report & Pick<Run, "history">;
};

/** Follows the model; gives what ends that. */
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
    // Who does not say so is told less often.
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
  // Who comes late sees the minutes that were; who was there has seen them.
  if (useLive.getState().run?.id === run.id) useLive.setState({ run });
  else show(run);
  if (progress !== "") take(JSON.parse(progress));
}
