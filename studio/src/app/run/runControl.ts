// Controls runs: start, stop, perturb, and keep the shown run in step with route and server.

import type { Perturbation, ServerEvent } from "../backend/api";
import { noticeChange, useOpened } from "../files/openFile";
import { show, take, useLive } from "../state/liveStore";
import { feedOf, numberOf } from "../state/queueKeys";
import { go, note, useRoute } from "../state/routeStore";
import { useSettings, variablesFor } from "../state/runSettings";
import { ask, backendNow, listRuns, look, useServer } from "../state/serverStore";
import { begin, flowNow, type Studio, seek, select, useStudio } from "../state/studioStore";

/** A second start within this time is taken for a double click. */
const AGAIN_MS = 500;

let isStarting = false;
/** The last started run and its start time. */
let latest: { readonly run: string; readonly at: number } | undefined;

/** Starts the current flow with the current run settings. */
export async function start(perturbations: readonly Perturbation[] = []): Promise<void> {
  if (isStarting || isJustStarted()) return;
  isStarting = true;
  try {
    await startNow(perturbations);
  } finally {
    isStarting = false;
  }
}

/** Whether a run was started within `DOUBLE_CLICK_MS` and is still running. */
function isJustStarted(): boolean {
  if (latest === undefined || performance.now() - latest.at > AGAIN_MS) return false;
  const { run: id } = latest;
  const told = [...useServer.getState().runs, useLive.getState().run];
  return !told.some((run) => run?.id === id && run.state !== "running");
}

async function startNow(perturbations: readonly Perturbation[]): Promise<void> {
  const flow = flowNow();
  const { cluster, threads, memory } = useSettings.getState();
  await ask(async (backend) => {
    const variables = variablesFor(flow);
    const run = await backend.start({ flow, variables, cluster, threads, memory, perturbations });
    latest = { run, at: performance.now() };
    await listRuns();
    go({ run });
  });
}

export async function stop(): Promise<void> {
  const { run } = useLive.getState();
  if (run !== undefined) await ask((backend) => backend.stop(run.id));
}

export async function perturb(perturbation: Perturbation): Promise<void> {
  const { run } = useLive.getState();
  if (run !== undefined) await ask((backend) => backend.perturb(run.id, [perturbation]));
}

/** Ends one perturbation, or all of them. */
export async function unperturb(number?: number): Promise<void> {
  const { run } = useLive.getState();
  if (run !== undefined) await ask((backend) => backend.unperturb(run.id, number));
}

/** Loads the route's run whenever it changes; returns the function that stops it. */
export function followRun(): () => void {
  void watch(useRoute.getState().run, look);
  return useRoute.subscribe((now, before) => {
    if (now.run !== before.run) void watch(now.run, ask);
  });
}

/** Writes the selected module or queue into the route; returns the function that stops it. */
export function followSelection(): () => void {
  return useStudio.subscribe((now, before) => {
    if (now.modules === before.modules && now.queues === before.queues) return;
    const { run, other } = useRoute.getState();
    if (run === undefined || other !== undefined || useLive.getState().run?.id !== run) return;
    const [module, ...more] = now.modules;
    const queue = numberInRun(now);
    if (queue !== undefined) note({ run, queue });
    else note(module !== undefined && more.length === 0 ? { run, module } : { run });
  });
}

/** The selected queue's position in the run's flow, which may differ from the current flow. */
export function numberInRun({ history, specs, queues }: Studio): number | undefined {
  const [selected] = queues;
  const { run } = useLive.getState();
  if (selected === undefined || run === undefined) return undefined;
  return numberOf(run.flow, specs, feedOf(history.now, specs, selected));
}

/** Selects the module or queue that the route names. */
function selectLinked(): void {
  const { module, queue } = useRoute.getState();
  const { history, specs } = useStudio.getState();
  const { run } = useLive.getState();
  if (module !== undefined) seek(new Set([module]));
  if (queue === undefined || run === undefined) return;
  const drawn = numberOf(history.now, specs, feedOf(run.flow, specs, queue));
  if (drawn !== undefined) select(new Set(), new Set([drawn]));
}

/** Loads the shown run again, after a reconnect. */
export function rewatch(): void {
  const { run } = useRoute.getState();
  if (run !== undefined) void watch(run, look);
}

/** Events that arrived while a run was loading: the newest of each type. */
const missed = new Map<ServerEvent["type"], ServerEvent>();

async function watch(id: string | undefined, by: typeof ask): Promise<void> {
  if (id === undefined) {
    show(undefined);
    return;
  }
  await by(async (backend) => {
    missed.clear();
    const run = await backend.run(id);
    if (useRoute.getState().run !== id) return;
    show(run);
    for (const event of missed.values()) hear(event);
    // Opened by a link: no flow to lose and no file to replace.
    if (isUntouched()) begin(run.flow);
    selectLinked();
  });
}

function isUntouched(): boolean {
  const { past, future, now } = useStudio.getState().history;
  const { path } = useOpened.getState();
  return path === undefined && past.length + future.length + now.modules.length === 0;
}

/** Handles an event of the server's stream. */
export function hear(event: ServerEvent): void {
  if (event.type === "file") void noticeChange(event.path);
  const { run } = useLive.getState();
  const of = runOf(event);
  if (of === undefined) return;
  if (of === useRoute.getState().run) missed.set(event.type, event);
  if (of !== run?.id) return;
  if (event.type === "progress") take(event.progress);
  else void refresh(run.id);
}

function runOf(event: ServerEvent): string | undefined {
  if (event.type === "progress") return event.progress.run;
  return event.type === "ended" || event.type === "report" ? event.run : undefined;
}

/** Fetches the whole run at its end: log, error and report are not in the event. */
async function refresh(id: string): Promise<void> {
  try {
    const run = await backendNow().run(id);
    if (useLive.getState().run?.id !== id) return;
    useLive.setState({ run });
    if (run.progress !== undefined) take(run.progress);
  } catch {
    // The server is gone; the run is loaded again on reconnect.
  }
}
