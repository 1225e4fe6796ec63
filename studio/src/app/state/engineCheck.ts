// Has the engine check the flow whenever it changes, debounced. The server executes nothing for it:
// Python functions stay text.

import type { Found } from "../../document/check";
import type { Flow } from "../../document/flow";
import type { Json } from "../../document/json";
import { BackendError, type CheckProblem } from "../backend/api";
import { drawnFor } from "./queueKeys";
import { variablesFor } from "./runSettings";
import { backendNow, useServer } from "./serverStore";
import { flowNow, learn, useStudio } from "./studioStore";

const PAUSE_MS = 100;

/** Starts the checks; returns the function that stops them. */
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
    // A lost server has its own notice; a document that it rejects is a problem of the flow.
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
