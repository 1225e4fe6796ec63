// Controls runs: start, stop, perturb, and keep the shown run in step with route and server.

import type { Perturbation, ServerEvent } from "../backend/api";
import { handleFileChange, useOpenFile } from "../files/openFile";
import { applyProgress, showRun, useLive } from "../state/liveStore";
import { queueKeyAt, queuePositionOf } from "../state/queueKeys";
import { navigate, replaceRoute, useRoute } from "../state/routeStore";
import { givenVariables, useRunSettings } from "../state/runSettings";
import {
  pageRequest,
  refreshRuns,
  requireBackend,
  userRequest,
  useServer,
} from "../state/serverStore";
import {
  currentFlow,
  loadFlow,
  revealModules,
  type StudioState,
  setSelection,
  useStudio,
} from "../state/studioStore";
import { replacing } from "./outputs";

/** A second start within this time is taken for a double click. */
const DOUBLE_CLICK_MS = 500;

let isStarting = false;
/** The last started run and its start time. */
let latest: { readonly run: string; readonly at: number } | undefined;

interface StartOptions {
  readonly perturbations?: readonly Perturbation[];
  /** The sinks that may replace what is there, in this run only. */
  readonly replaced?: readonly string[];
}

/** Starts the current flow with the current run settings. */
export async function startRun(options: StartOptions = {}): Promise<void> {
  if (isStarting || isJustStarted()) return;
  isStarting = true;
  try {
    await requestStart(options);
  } finally {
    isStarting = false;
  }
}

/** Whether a run was started within `DOUBLE_CLICK_MS` and is still running. */
function isJustStarted(): boolean {
  if (latest === undefined || performance.now() - latest.at > DOUBLE_CLICK_MS) return false;
  const { run: id } = latest;
  const runs = [...useServer.getState().runs, useLive.getState().run];
  return !runs.some((run) => run?.id === id && run.state !== "running");
}

async function requestStart({ perturbations = [], replaced = [] }: StartOptions): Promise<void> {
  const flow = replacing(currentFlow(), replaced);
  const { cluster, threads, memory } = useRunSettings.getState();
  await userRequest(async (backend) => {
    const variables = givenVariables(flow);
    const run = await backend.start({ flow, variables, cluster, threads, memory, perturbations });
    latest = { run, at: performance.now() };
    await refreshRuns();
    navigate({ run });
  });
}

export async function stopRun(): Promise<void> {
  const { run } = useLive.getState();
  if (run !== undefined) await userRequest((backend) => backend.stop(run.id));
}

export async function perturb(perturbation: Perturbation): Promise<void> {
  const { run } = useLive.getState();
  if (run !== undefined) await userRequest((backend) => backend.perturb(run.id, [perturbation]));
}

/** Ends one perturbation, or all of them. */
export async function endPerturbation(number?: number): Promise<void> {
  const { run } = useLive.getState();
  if (run !== undefined) await userRequest((backend) => backend.unperturb(run.id, number));
}

/** Loads the route's run whenever it changes; returns the function that stops it. */
export function followRoute(): () => void {
  void loadRun(useRoute.getState().run, pageRequest);
  return useRoute.subscribe((now, before) => {
    if (now.run !== before.run) void loadRun(now.run, userRequest);
  });
}

/** Writes the selected module or queue into the route; returns the function that stops it. */
export function followSelection(): () => void {
  return useStudio.subscribe((now, before) => {
    if (
      now.selectedModules === before.selectedModules &&
      now.selectedQueues === before.selectedQueues
    )
      return;
    const { run, other } = useRoute.getState();
    if (run === undefined || other !== undefined || useLive.getState().run?.id !== run) return;
    const [module, ...more] = now.selectedModules;
    const queue = selectedQueueInRun(now);
    if (queue !== undefined) replaceRoute({ run, queue });
    else replaceRoute(module !== undefined && more.length === 0 ? { run, module } : { run });
  });
}

/** The selected queue's position in the run's flow, which may differ from the current flow. */
export function selectedQueueInRun({
  history,
  specs,
  selectedQueues,
}: StudioState): number | undefined {
  const [selected] = selectedQueues;
  const { run } = useLive.getState();
  if (selected === undefined || run === undefined) return undefined;
  return queuePositionOf(run.flow, specs, queueKeyAt(history.now, specs, selected));
}

/** Selects the module or queue that the route names. */
function selectFromRoute(): void {
  const { module, queue } = useRoute.getState();
  const { history, specs } = useStudio.getState();
  const { run } = useLive.getState();
  if (module !== undefined) revealModules(new Set([module]));
  if (queue === undefined || run === undefined) return;
  const drawn = queuePositionOf(history.now, specs, queueKeyAt(run.flow, specs, queue));
  if (drawn !== undefined) setSelection(new Set(), new Set([drawn]));
}

/** Loads the shown run again, after a reconnect. */
export function reloadRun(): void {
  const { run } = useRoute.getState();
  if (run !== undefined) void loadRun(run, pageRequest);
}

/** Events that arrived while a run was loading: the newest of each type. */
const missedEvents = new Map<ServerEvent["type"], ServerEvent>();

async function loadRun(id: string | undefined, by: typeof userRequest): Promise<void> {
  if (id === undefined) {
    showRun(undefined);
    return;
  }
  await by(async (backend) => {
    missedEvents.clear();
    const run = await backend.run(id);
    if (useRoute.getState().run !== id) return;
    showRun(run);
    for (const event of missedEvents.values()) handleEvent(event);
    // Opened by a link: no flow to lose and no file to replace.
    if (isUntouched()) loadFlow(run.flow);
    selectFromRoute();
  });
}

function isUntouched(): boolean {
  const { past, future, now } = useStudio.getState().history;
  const { path } = useOpenFile.getState();
  return path === undefined && past.length + future.length + now.modules.length === 0;
}

/** Handles an event of the server's stream. */
export function handleEvent(event: ServerEvent): void {
  if (event.type === "file") void handleFileChange(event.path);
  const { run } = useLive.getState();
  const of = runIdOf(event);
  if (of === undefined) return;
  if (of === useRoute.getState().run) missedEvents.set(event.type, event);
  if (of !== run?.id) return;
  if (event.type === "progress") applyProgress(event.progress);
  else void refreshRun(run.id);
}

function runIdOf(event: ServerEvent): string | undefined {
  if (event.type === "progress") return event.progress.run;
  return event.type === "ended" || event.type === "report" ? event.run : undefined;
}

/** Fetches the whole run at its end: log, error and report are not in the event. */
async function refreshRun(id: string): Promise<void> {
  try {
    const run = await requireBackend().run(id);
    if (useLive.getState().run?.id !== id) return;
    useLive.setState({ run });
    if (run.progress !== undefined) applyProgress(run.progress);
  } catch {
    // The server is gone; the run is loaded again on reconnect.
  }
}
