// Asks the engine what it says of the flow whenever that has changed, once typing pauses. Asked for
// it, the server executes nothing: what is a Python function stays text.

import type { Found } from "../document/check";
import type { Flow } from "../document/flow";
import type { Json } from "../document/json";
import { BackendError, type CheckProblem } from "./backend/border";
import { drawnFor } from "./feeds";
import { backendNow, useServer } from "./server";
import { flowNow, learn, useStudio } from "./studio";
import { variablesFor } from "./variables";

const PAUSE_MS = 100;

/** Gives what ends it. */
export function keepChecked(): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(() => void check(), PAUSE_MS);
  };
  const stops = [
    useStudio.subscribe((now, before) => {
      if (now.history.now !== before.history.now || now.specs !== before.specs) soon();
    }),
    useServer.subscribe((now, before) => {
      if (now.link !== before.link && now.link === "up") soon();
    }),
  ];
  soon();
  return () => {
    clearTimeout(timer);
    for (const stop of stops) stop();
  };
}

async function check(): Promise<void> {
  if (useServer.getState().link !== "up") return;
  const flow = flowNow();
  if (flow.modules.length === 0) return;
  const variables: ReadonlyMap<string, Json> = variablesFor(flow);
  try {
    const { problems, queues } = await backendNow().check(flow, variables);
    learn(flow, { problems: problems.map((problem) => found(flow, problem)), queues });
  } catch (error) {
    // A server that is gone is told of elsewhere; a document that it does not read is a problem.
    if (!(error instanceof BackendError)) throw error;
    const { status, message, remedy } = error;
    if (status >= 400 && status < 500 && status !== 401) {
      learn(flow, { problems: [{ message, remedy }], queues: [] });
    }
  }
}

function found(flow: Flow, { at, message, remedy }: CheckProblem): Found {
  return {
    message,
    ...(remedy ? { remedy } : {}),
    ...(at.module === undefined ? {} : { module: drawnFor(flow, at.module) }),
    ...(at.queue === undefined ? {} : { queue: at.queue }),
    ...(at.field === undefined ? {} : { option: at.field }),
  };
}
