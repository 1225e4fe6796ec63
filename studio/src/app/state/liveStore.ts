// Store of the run that is shown: progress as entries per module and queue. An entry stays the
// same object while its values do, so a node or edge re-renders only when its own entry changes.

import { create } from "zustand";
import type { Flow } from "../../document/flow";
import type { History, ModuleProgress, Progress, QueueProgress, Run } from "../backend/api";
import { bytesText, countText } from "../ui/format";
import { inAll } from "./finalProgress";
import { drawnFor, endKey } from "./queueKeys";

/** Live statistics of a module. */
export interface ModuleLive {
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
export interface QueueLive {
  readonly rate: string;
  /** The fill level as text, in steps of 5 %. */
  readonly filled: string;
  /** The fill level from 0 to `LEVEL_MAX`. */
  readonly level: number;
}

export interface Live {
  readonly run: Run | undefined;
  readonly progress: Progress | undefined;
  /** Progress for tables: updated once a second, and when the slow components change. */
  readonly glance: Progress | undefined;
  readonly modules: ReadonlyMap<string, ModuleLive>;
  /** By `portKey` of the output that feeds the queue. */
  readonly queues: ReadonlyMap<string, QueueLive>;
}

const NOTHING: Live = {
  run: undefined,
  progress: undefined,
  glance: undefined,
  modules: new Map(),
  queues: new Map(),
};

export const useLive = create<Live>(() => NOTHING);

/** Length of a trace, one point a second. */
export const TRACE_SECONDS = 60;
/** The level of a full queue. */
export const LEVEL_MAX = 4;

type Figures = Pick<Live, "modules" | "queues">;
/** The newest entries; a large flow's are published over several frames. */
let newest: Figures = NOTHING;

/** Shows another run with its history, or none. */
export function show(run: Run | undefined): void {
  newest = NOTHING;
  useLive.setState({ ...NOTHING, run });
  if (run?.history !== undefined) recall(run.history);
  if (run?.progress !== undefined) take(run.progress);
}

/** Applies a progress message to the run that is shown. */
export function take(last: Progress): void {
  const { run, glance, progress: before } = useLive.getState();
  if (run === undefined) return;
  const { report } = run;
  const progress = report === undefined ? last : inAll(last, report);
  const { modules, queues } = newest;
  const isOther = Math.floor(progress.seconds) !== Math.floor(before?.seconds ?? -1);
  // The totals of a report are no further second of the trace.
  const isNext = isOther && report === undefined;
  const isNews = isOther || run.state !== "running" || slowIn(progress) !== slowIn(glance);
  const asides = asidesOf(progress, run.flow);
  newest = {
    modules: keeping(
      modules,
      progress.modules,
      ({ id }) => id,
      (module, old) => moduleLive(module, old, isNext, asides.get(module.id)),
    ),
    queues: keeping(queues, progress.queues, ({ from }) => endKey(from), queueLive),
  };
  reveal({ progress, glance: isNews ? progress : glance });
}

/** Entries published per frame at least, and frames until all are published at most. */
const PORTION_MIN = 40;
const FRAMES_MAX = 4;

let isRevealing = false;

/**
 * Publishes the newest entries, one portion a frame: all at once would delay the next frames. Newer
 * progress replaces unpublished entries, so nothing queues up.
 */
function reveal(beside: Partial<Live> = {}): void {
  if (isRevealing) {
    useLive.setState(beside);
    return;
  }
  const { modules, queues } = useLive.getState();
  const entries = newest.modules.size + newest.queues.size;
  const portion = Math.max(PORTION_MIN, Math.ceil(entries / FRAMES_MAX));
  const shown = {
    modules: nearer(modules, newest.modules, portion),
    queues: nearer(queues, newest.queues, portion),
  };
  useLive.setState({ ...beside, ...shown });
  if (shown.modules === newest.modules && shown.queues === newest.queues) return;
  isRevealing = true;
  afterFrame(() => {
    isRevealing = false;
    reveal();
  });
}

/** Calls `next` on the next frame, or at once outside of a browser. */
function afterFrame(next: () => void): void {
  if (typeof requestAnimationFrame === "function") requestAnimationFrame(next);
  else next();
}

/** `shown` with up to `portion` changed entries taken from `newest`. */
function nearer<T>(
  shown: ReadonlyMap<string, T>,
  newest: ReadonlyMap<string, T>,
  portion: number,
): ReadonlyMap<string, T> {
  const changed = [...newest].filter(([key, entry]) => shown.get(key) !== entry);
  if (changed.length <= portion) return newest;
  return new Map([...shown, ...changed.slice(0, portion)]);
}

function slowIn(progress: Progress | undefined): string {
  return (progress?.slow ?? []).map(({ name }) => name).join(" ");
}

interface Aside {
  slow?: string;
  bottleneck?: string;
}

/**
 * Badges by module. Instances count for their module, and internal parts of a module, such as the
 * `sort_1_partition` of `sort_1`, for the module that is drawn.
 */
function asidesOf({ modules, slow, bottleneck }: Progress, flow: Flow): ReadonlyMap<string, Aside> {
  const ids = new Set(modules.map(({ id }) => id));
  const asides = new Map<string, Aside>();
  const of = (name: string): Aside => {
    const own = ids.has(name) ? name : name.slice(0, Math.max(name.lastIndexOf("."), 0));
    const id = drawnFor(flow, own);
    const aside = asides.get(id) ?? {};
    asides.set(id, aside);
    return aside;
  };
  for (const { name } of slow) {
    const aside = of(name);
    aside.slow = aside.slow === undefined ? name : `${aside.slow}, ${name}`;
  }
  if (bottleneck !== null && bottleneck.kind !== "disk") {
    of(bottleneck.name).bottleneck = bottleneck.why;
  }
  return asides;
}

function moduleLive(
  module: ModuleProgress,
  old: ModuleLive | undefined,
  isNext: boolean,
  { slow, bottleneck }: Aside = {},
): ModuleLive {
  const { state, busy, starved, blocked, rows_per_second, bytes_per_second } = module;
  const trace = old?.trace ?? [];
  return {
    state,
    busy: Math.round(busy * 100),
    starved: Math.round(starved * 100),
    blocked: Math.round(blocked * 100),
    rate: rateText(rows_per_second, bytes_per_second),
    trace: isNext ? longer(trace, Math.round(bytes_per_second)) : trace,
    slow,
    bottleneck,
  };
}

/** Appends to a trace; a full trace of one constant value stays the same object. */
function longer(trace: readonly number[], value: number): readonly number[] {
  const isFlat = trace.length === TRACE_SECONDS && trace.every((one) => one === value);
  return isFlat ? trace : [...trace, value].slice(-TRACE_SECONDS);
}

function queueLive(queue: QueueProgress): QueueLive {
  const { rows_per_second, bytes_per_second, waiting_bytes, bound_bytes } = queue;
  const part = bound_bytes > 0 ? Math.min(waiting_bytes / bound_bytes, 1) : 0;
  return {
    rate: rateText(rows_per_second, bytes_per_second),
    // In steps of 5 %, so that small fluctuations do not re-render the edge.
    filled: `${Math.round(part * 20) * 5} %`,
    level: Math.round(part * LEVEL_MAX),
  };
}

/** Rows and bytes per second; empty if both are 0. */
export function rateText(rows: number, bytes: number): string {
  if (rows === 0 && bytes === 0) return "";
  return `${countText(rows)} rows/s · ${bytesText(bytes)}/s`;
}

/** Maps items to entries, reusing equal old ones; returns `before` if nothing changed. */
function keeping<In, Out extends object>(
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
    const kept = old !== undefined && saysTheSame(old, fresh) ? old : fresh;
    isSame &&= kept === old;
    now.set(key, kept);
  }
  return isSame ? before : now;
}

function saysTheSame<T extends object>(a: T, b: T): boolean {
  return (Object.keys(b) as (keyof T)[]).every((key) => a[key] === b[key]);
}

/** Restores traces from a run's history: per module, the sum over its instances. */
function recall({ seconds, series }: History): void {
  const modules = new Map<string, ModuleLive>();
  const since = (seconds.at(-1) ?? 0) - TRACE_SECONDS;
  for (const { module, bytes_per_second } of series) {
    if (module === null) continue;
    const trace = modules.get(module)?.trace ?? seconds.filter((at) => at > since).map(() => 0);
    const recent = bytes_per_second.slice(-trace.length);
    const sums = trace.map((sum, i) => sum + Math.round(recent[i] ?? 0));
    modules.set(module, { ...IDLE, trace: sums });
  }
  newest = { ...newest, modules };
  useLive.setState({ modules });
}

const IDLE: ModuleLive = {
  state: "",
  busy: 0,
  starved: 0,
  blocked: 0,
  rate: "",
  trace: [],
  slow: undefined,
  bottleneck: undefined,
};
