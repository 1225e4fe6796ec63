// Store of the run that is shown: progress as entries per module and queue. An entry stays the
// same object while its values do, so a node or edge re-renders only when its own entry changes.

import { create } from "zustand";
import type { Flow } from "../../document/flow";
import type { History, ModuleProgress, Progress, QueueProgress, Run } from "../backend/api";
import { formatBytes, formatCount } from "../ui/format";
import { finalProgress } from "./finalProgress";
import { portKey, visibleModuleId } from "./queueKeys";

/** Live statistics of a module. */
export interface LiveModule {
  readonly state: string;
  /** Time shares in percent. */
  readonly busy: number;
  readonly starved: number;
  readonly blocked: number;
  readonly rate: string;
  /** Bytes per second for each second of the last minute. */
  readonly trace: readonly number[];
  /** The names of its slow instances. */
  readonly slow: string | undefined;
  /** Why it is the bottleneck, if it is. */
  readonly bottleneck: string | undefined;
}

/** Live statistics of a queue. */
export interface LiveQueue {
  readonly rate: string;
  /** The fill level as text, in steps of 5 %. */
  readonly fillText: string;
  /** The fill level from 0 to `LEVEL_MAX`. */
  readonly level: number;
}

export interface LiveState {
  readonly run: Run | undefined;
  readonly progress: Progress | undefined;
  /** Progress for tables: updated once a second, and when the slow components change. */
  readonly tableProgress: Progress | undefined;
  readonly modules: ReadonlyMap<string, LiveModule>;
  /** By `portKey` of the output that feeds the queue. */
  readonly queues: ReadonlyMap<string, LiveQueue>;
}

const NO_RUN: LiveState = {
  run: undefined,
  progress: undefined,
  tableProgress: undefined,
  modules: new Map(),
  queues: new Map(),
};

export const useLive = create<LiveState>(() => NO_RUN);

/** Length of a trace, one point a second. */
export const TRACE_SECONDS = 60;
/** The level of a full queue. */
export const LEVEL_MAX = 4;

type LiveEntries = Pick<LiveState, "modules" | "queues">;
/** The newest entries; a large flow's are published over several frames. */
let latest: LiveEntries = NO_RUN;

/** Shows another run with its history, or none. */
export function showRun(run: Run | undefined): void {
  latest = NO_RUN;
  useLive.setState({ ...NO_RUN, run });
  if (run?.history !== undefined) restoreTraces(run.history);
  if (run?.progress !== undefined) applyProgress(run.progress);
}

/** Applies a progress message to the run that is shown. */
export function applyProgress(last: Progress): void {
  const { run, tableProgress, progress: before } = useLive.getState();
  if (run === undefined) return;
  const { report } = run;
  const progress = report === undefined ? last : finalProgress(last, report);
  const { modules, queues } = latest;
  const isNewSecond = Math.floor(progress.seconds) !== Math.floor(before?.seconds ?? -1);
  // The totals of a report are no further second of the trace.
  const extendsTrace = isNewSecond && report === undefined;
  const updatesTables =
    isNewSecond || run.state !== "running" || slowNames(progress) !== slowNames(tableProgress);
  const badges = badgesByModule(progress, run.flow);
  latest = {
    modules: reuseUnchanged(
      modules,
      progress.modules,
      ({ id }) => id,
      (module, old) => toLiveModule(module, old, extendsTrace, badges.get(module.id)),
    ),
    queues: reuseUnchanged(queues, progress.queues, ({ from }) => portKey(from), toLiveQueue),
  };
  publish({ progress, tableProgress: updatesTables ? progress : tableProgress });
}

/** Entries published per frame at least, and frames until all are published at most. */
const ENTRIES_PER_FRAME_MIN = 40;
const FRAMES_MAX = 4;

let isPublishing = false;

/**
 * Publishes the newest entries, one portion a frame: all at once would delay the next frames. Newer
 * progress replaces unpublished entries, so nothing queues up.
 */
function publish(rest: Partial<LiveState> = {}): void {
  if (isPublishing) {
    useLive.setState(rest);
    return;
  }
  const { modules, queues } = useLive.getState();
  const entries = latest.modules.size + latest.queues.size;
  const portion = Math.max(ENTRIES_PER_FRAME_MIN, Math.ceil(entries / FRAMES_MAX));
  const shown = {
    modules: withChanges(modules, latest.modules, portion),
    queues: withChanges(queues, latest.queues, portion),
  };
  useLive.setState({ ...rest, ...shown });
  if (shown.modules === latest.modules && shown.queues === latest.queues) return;
  isPublishing = true;
  onNextFrame(() => {
    isPublishing = false;
    publish();
  });
}

/** Calls `next` on the next frame, or at once outside of a browser. */
function onNextFrame(next: () => void): void {
  if (typeof requestAnimationFrame === "function") requestAnimationFrame(next);
  else next();
}

/** `shown` with up to `portion` changed entries taken from `newest`. */
function withChanges<T>(
  shown: ReadonlyMap<string, T>,
  newest: ReadonlyMap<string, T>,
  portion: number,
): ReadonlyMap<string, T> {
  const changed = [...newest].filter(([key, entry]) => shown.get(key) !== entry);
  if (changed.length <= portion) return newest;
  return new Map([...shown, ...changed.slice(0, portion)]);
}

function slowNames(progress: Progress | undefined): string {
  return (progress?.slow ?? []).map(({ name }) => name).join(" ");
}

interface ModuleBadges {
  slow?: string;
  bottleneck?: string;
}

/**
 * Badges by module. Instances count for their module, and internal parts of a module, such as the
 * `sort_1_partition` of `sort_1`, for the module that is drawn.
 */
function badgesByModule(
  { modules, slow, bottleneck }: Progress,
  flow: Flow,
): ReadonlyMap<string, ModuleBadges> {
  const ids = new Set(modules.map(({ id }) => id));
  const badges = new Map<string, ModuleBadges>();
  const of = (name: string): ModuleBadges => {
    const own = ids.has(name) ? name : name.slice(0, Math.max(name.lastIndexOf("."), 0));
    const id = visibleModuleId(flow, own);
    const entry = badges.get(id) ?? {};
    badges.set(id, entry);
    return entry;
  };
  for (const { name } of slow) {
    const entry = of(name);
    entry.slow = entry.slow === undefined ? name : `${entry.slow}, ${name}`;
  }
  if (bottleneck !== null && bottleneck.kind !== "disk") {
    of(bottleneck.name).bottleneck = bottleneck.why;
  }
  return badges;
}

function toLiveModule(
  module: ModuleProgress,
  old: LiveModule | undefined,
  extendsTrace: boolean,
  { slow, bottleneck }: ModuleBadges = {},
): LiveModule {
  const { state, busy, starved, blocked, rows_per_second, bytes_per_second } = module;
  const trace = old?.trace ?? [];
  return {
    state,
    busy: Math.round(busy * 100),
    starved: Math.round(starved * 100),
    blocked: Math.round(blocked * 100),
    rate: formatRates(rows_per_second, bytes_per_second),
    trace: extendsTrace ? appendToTrace(trace, Math.round(bytes_per_second)) : trace,
    slow,
    bottleneck,
  };
}

/** Appends to a trace; a full trace of one constant value stays the same object. */
function appendToTrace(trace: readonly number[], value: number): readonly number[] {
  const isFlat = trace.length === TRACE_SECONDS && trace.every((one) => one === value);
  return isFlat ? trace : [...trace, value].slice(-TRACE_SECONDS);
}

function toLiveQueue(queue: QueueProgress): LiveQueue {
  const { rows_per_second, bytes_per_second, waiting_bytes, bound_bytes } = queue;
  const part = bound_bytes > 0 ? Math.min(waiting_bytes / bound_bytes, 1) : 0;
  return {
    rate: formatRates(rows_per_second, bytes_per_second),
    // In steps of 5 %, so that small fluctuations do not re-render the edge.
    fillText: `${Math.round(part * 20) * 5} %`,
    level: Math.round(part * LEVEL_MAX),
  };
}

/** Rows and bytes per second; empty if both are 0. */
export function formatRates(rows: number, bytes: number): string {
  if (rows === 0 && bytes === 0) return "";
  return `${formatCount(rows)} rows/s · ${formatBytes(bytes)}/s`;
}

/** Maps items to entries, reusing equal old ones; returns `before` if nothing changed. */
function reuseUnchanged<In, Out extends object>(
  before: ReadonlyMap<string, Out>,
  items: readonly In[],
  keyOf: (item: In) => string,
  read: (item: In, old: Out | undefined) => Out,
): ReadonlyMap<string, Out> {
  const now = new Map<string, Out>();
  let isSame = items.length === before.size;
  for (const item of items) {
    const key = keyOf(item);
    const old = before.get(key);
    const fresh = read(item, old);
    const reused = old !== undefined && shallowEqual(old, fresh) ? old : fresh;
    isSame &&= reused === old;
    now.set(key, reused);
  }
  return isSame ? before : now;
}

function shallowEqual<T extends object>(a: T, b: T): boolean {
  return (Object.keys(b) as (keyof T)[]).every((key) => a[key] === b[key]);
}

/** Restores traces from a run's history: per module, the sum over its instances. */
function restoreTraces({ seconds, series }: History): void {
  const modules = new Map<string, LiveModule>();
  const since = (seconds.at(-1) ?? 0) - TRACE_SECONDS;
  for (const { module, bytes_per_second } of series) {
    if (module === null) continue;
    const trace = modules.get(module)?.trace ?? seconds.filter((at) => at > since).map(() => 0);
    const recent = bytes_per_second.slice(-trace.length);
    const sums = trace.map((sum, i) => sum + Math.round(recent[i] ?? 0));
    modules.set(module, { ...EMPTY_MODULE, trace: sums });
  }
  latest = { ...latest, modules };
  useLive.setState({ modules });
}

const EMPTY_MODULE: LiveModule = {
  state: "",
  busy: 0,
  starved: 0,
  blocked: 0,
  rate: "",
  trace: [],
  slow: undefined,
  bottleneck: undefined,
};
