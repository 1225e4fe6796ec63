// Runs: started, stopped, watched, slowed on purpose. Whatever is shown of a run is asked for anew
// when the server was away, so that the page finds it again.

import type { Perturbation, ServerEvent } from "./backend/border";
import { feedOf, numberOf } from "./feeds";
import { noticeChange, useOpened } from "./files";
import { show, take, useLive } from "./live";
import { go, note, useRoute } from "./route";
import { ask, backendNow, listRuns, look, useServer } from "./server";
import { begin, flowNow, type Studio, seek, select, useStudio } from "./studio";
import { useSettings, variablesFor } from "./variables";

/** A second click that comes so soon belongs to the first: nobody wants the same twice at once. */
const AGAIN_MS = 500;

let isStarting = false;
/** The run that was started last, and when. */
let latest: { readonly run: string; readonly at: number } | undefined;

/** Runs what is drawn, with the values and on the cluster that were chosen last. */
export async function start(perturbations: readonly Perturbation[] = []): Promise<void> {
  if (isStarting || isJustStarted()) return;
  isStarting = true;
  try {
    await startNow(perturbations);
  } finally {
    isStarting = false;
  }
}

/** Whether a run was started a moment ago, and runs still. */
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

/** Shows the run that the address says, whenever it says another; gives what ends that. */
export function followRun(): () => void {
  void watch(useRoute.getState().run, look);
  return useRoute.subscribe((now, before) => {
    if (now.run !== before.run) void watch(now.run, ask);
  });
}

/** Has the address say which module or queue of the run is selected; gives what ends that. */
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

/** The selected queue's position in what ran, which need not be what is drawn. */
export function numberInRun({ history, specs, queues }: Studio): number | undefined {
  const [selected] = queues;
  const { run } = useLive.getState();
  if (selected === undefined || run === undefined) return undefined;
  return numberOf(run.flow, specs, feedOf(history.now, specs, selected));
}

/** Selects what the address says of the run. */
function selectLinked(): void {
  const { module, queue } = useRoute.getState();
  const { history, specs } = useStudio.getState();
  const { run } = useLive.getState();
  if (module !== undefined) seek(new Set([module]));
  if (queue === undefined || run === undefined) return;
  const drawn = numberOf(history.now, specs, feedOf(run.flow, specs, queue));
  if (drawn !== undefined) select(new Set(), new Set([drawn]));
}

/** Asks for the run that is shown once more. */
export function rewatch(): void {
  const { run } = useRoute.getState();
  if (run !== undefined) void watch(run, look);
}

/** What was said of a run while it was asked for, the newest of each kind. */
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
    // Who comes by a link has nothing drawn that could be lost, and no file that would be replaced.
    if (isUntouched()) begin(run.flow);
    selectLinked();
  });
}

function isUntouched(): boolean {
  const { past, future, now } = useStudio.getState().history;
  const { path } = useOpened.getState();
  return path === undefined && past.length + future.length + now.modules.length === 0;
}

/** Takes what the server says by itself. */
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

/** What is said at the end is more than the event says: the log, the whole error, the report. */
async function refresh(id: string): Promise<void> {
  try {
    const run = await backendNow().run(id);
    if (useLive.getState().run?.id !== id) return;
    useLive.setState({ run });
    if (run.progress !== undefined) take(run.progress);
  } catch {
    // It was there a moment ago: it is asked for again when the server is back.
  }
}
