// Synchronizes the widget's state, set by Python, with the stores that the views read.

import type { Failure, Report, Run } from "../app/backend/api";
import { applyProgress, showRun, useLive } from "../app/state/liveStore";
import { currentFlow, loadDocument, setSpecs } from "../app/state/studioStore";
import { BUILT_IN, type Spec, specsOf } from "../document/specs";

/** Commands that the view sends to Python. */
export type Command = "run" | "stop";

/** The widget's state, shared by all of its views and changed by Python only. */
export interface WidgetModel {
  readonly get: (name: string) => unknown;
  readonly on: (event: string, act: () => void) => void;
  readonly off: (event: string, act: () => void) => void;
  readonly send: (content: Readonly<Record<string, unknown>>) => void;
}

/** A run as Python sends it. */
type SentRun = Omit<Run, "flow" | "log" | "failure" | "report"> & {
  readonly failure?: Failure;
  readonly report?: Report & Pick<Run, "history">;
};

/** Follows the model; returns the function that stops it. */
export function followModel(model: WidgetModel): () => void {
  const onDocument = () => {
    const own: readonly Spec[] = JSON.parse(textOf(model, "modules"));
    setSpecs(specsOf([...BUILT_IN.values(), ...own]));
    loadDocument(textOf(model, "document"));
  };
  const onStatus = () => applyStatus(textOf(model, "status"), textOf(model, "progress"));
  const onProgress = () => {
    const progress = textOf(model, "progress");
    if (progress !== "") applyProgress(JSON.parse(progress));
    // Acknowledges the message: Python sends less often to views that do not.
    model.send({ seen: true });
  };
  const handlers = {
    "change:modules": onDocument,
    "change:document": onDocument,
    "change:status": onStatus,
    "change:progress": onProgress,
  };
  for (const [event, act] of Object.entries(handlers)) model.on(event, act);
  onDocument();
  onStatus();
  return () => {
    for (const [event, act] of Object.entries(handlers)) model.off(event, act);
  };
}

function textOf(model: WidgetModel, name: string): string {
  const text = model.get(name);
  return typeof text === "string" ? text : "";
}

function applyStatus(status: string, progress: string): void {
  if (status === "") {
    showRun(undefined);
    return;
  }
  const sent: SentRun = JSON.parse(status);
  const run: Run = { ...sent, flow: currentFlow(), log: [], history: sent.report?.history };
  // A new view restores the history; an open one has it already.
  if (useLive.getState().run?.id === run.id) useLive.setState({ run });
  else showRun(run);
  if (progress !== "") applyProgress(JSON.parse(progress));
}
