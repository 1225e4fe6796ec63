// Has the engine check the flow whenever it changes, debounced. The server executes nothing for it:
// Python functions stay text.

import type { FlowProblem } from "../../document/check";
import type { Flow } from "../../document/flow";
import type { Json } from "../../document/json";
import { BackendError, type CheckedModule, type CheckProblem } from "../backend/api";
import { portKey, visibleModuleId } from "./queueKeys";
import { givenVariables } from "./runSettings";
import { requireBackend, useServer } from "./serverStore";
import { currentFlow, type EngineCheck, setEngineCheck, useStudio } from "./studioStore";

const DEBOUNCE_MS = 100;

/** Starts the checks; returns the function that stops them. */
export function startEngineChecks(): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const schedule = () => {
    clearTimeout(timer);
    timer = setTimeout(() => void check(), DEBOUNCE_MS);
  };
  const stops = [
    useStudio.subscribe((now, before) => {
      if (now.history.now !== before.history.now || now.specs !== before.specs) schedule();
    }),
    useServer.subscribe((now, before) => {
      if (now.link !== before.link && now.link === "up") schedule();
    }),
  ];
  schedule();
  return () => {
    clearTimeout(timer);
    for (const stop of stops) stop();
  };
}

async function check(): Promise<void> {
  if (useServer.getState().link !== "up") return;
  const flow = currentFlow();
  if (flow.modules.length === 0) return;
  const variables: ReadonlyMap<string, Json> = givenVariables(flow);
  try {
    const { problems, queues, modules } = await requireBackend().check(flow, variables);
    setEngineCheck(flow, {
      problems: problems.map((problem) => toFlowProblem(flow, problem)),
      queues,
      outputs: outputSchemas(modules),
    });
  } catch (error) {
    // A lost server has its own notice; a document that it rejects is a problem of the flow.
    if (!(error instanceof BackendError)) throw error;
    const { status, message, remedy } = error;
    if (status >= 400 && status < 500 && status !== 401) {
      setEngineCheck(flow, { problems: [{ message, remedy }], queues: [] });
    }
  }
}

function outputSchemas(modules: readonly CheckedModule[]): EngineCheck["outputs"] {
  return new Map(
    modules.flatMap(({ id, outputs = [] }) =>
      outputs.map(({ name, schema }) => [portKey([id, name]), schema] as const),
    ),
  );
}

function toFlowProblem(flow: Flow, { at, message, remedy }: CheckProblem): FlowProblem {
  return {
    message,
    ...(remedy ? { remedy } : {}),
    ...(at.module === undefined ? {} : { module: visibleModuleId(flow, at.module) }),
    ...(at.queue === undefined ? {} : { queue: at.queue }),
    ...(at.field === undefined ? {} : { option: at.field }),
  };
}
