// Has the engine check the flow whenever it changes, debounced. The server executes nothing for it:
// Python functions stay text.

import type { FlowProblem } from "../../document/check";
import type { Flow } from "../../document/flow";
import type { Json } from "../../document/json";
import { BackendError, type CheckedModule, type CheckProblem } from "../backend/api";
import { closeOpenEnds } from "./openEnds";
import { portKey, visibleModuleId } from "./queueKeys";
import { givenVariables } from "./runSettings";
import { requireBackend, useServer } from "./serverStore";
import { currentFlow, type EngineCheck, setEngineCheck, useStudio } from "./studioStore";

const DEBOUNCE_MS = 100;
/** Until a check is repeated that a busy machine did not finish. */
const RETRY_MS = 1000;

/** Starts the checks; returns the function that stops them. */
export function startEngineChecks(): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const schedule = () => {
    clearTimeout(timer);
    timer = setTimeout(() => void checkOnce(), DEBOUNCE_MS);
  };
  const checkOnce = async () => {
    const flow = currentFlow();
    const isDone = await check();
    // A changed flow has a check of its own.
    if (!isDone && flow === currentFlow()) timer = setTimeout(() => void checkOnce(), RETRY_MS);
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

/** Checks the current flow; returns false if the server was too busy. */
async function check(): Promise<boolean> {
  if (useServer.getState().link !== "up") return true;
  const flow = currentFlow();
  if (flow.modules.length === 0) return true;
  const variables: ReadonlyMap<string, Json> = givenVariables(flow);
  try {
    const closed = closeOpenEnds(flow, useStudio.getState().specs);
    const { problems, queues, modules } = await requireBackend().check(closed, variables);
    const isOwn = ({ at }: CheckProblem) => (at.queue ?? 0) < flow.queues.length;
    setEngineCheck(flow, {
      problems: problems.filter(isOwn).map((problem) => toFlowProblem(flow, problem)),
      queues,
      outputs: outputSchemas(modules),
    });
  } catch (error) {
    // A lost server has its own notice; a document that it rejects is a problem of the flow.
    if (!(error instanceof BackendError)) throw error;
    const { status, message, remedy } = error;
    if (status === BUSY) return false;
    if (status >= 400 && status < 500 && status !== 401) {
      setEngineCheck(flow, { problems: [{ message, remedy }], queues: [] });
    }
  }
  return true;
}

const BUSY = 503;

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
