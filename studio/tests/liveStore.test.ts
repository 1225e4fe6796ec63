// The live store, routes and number formats, without a page.

import { beforeEach, expect, test, vi } from "vitest";
import type { Progress, Report, Run } from "../src/app/backend/api";
import { applyProgress, LEVEL_MAX, showRun, useLive } from "../src/app/state/liveStore";
import { portKey } from "../src/app/state/queueKeys";
import { formatRoute, parseRoute } from "../src/app/state/routeStore";
import { formatBytes, formatCount, formatSeconds } from "../src/app/ui/format";
import { isolateBidi } from "../src/app/ui/isolateBidi";
import { place } from "../src/document/edits";
import { newFlow } from "../src/document/flow";
import { forSeeds } from "./randomFlow";

const RUN: Run = {
  id: "1",
  name: "flow",
  state: "running",
  started: 0,
  seconds: 0,
  cluster: "",
  variables: {},
  flow: newFlow(),
  log: [],
};

function module(id: string, bytes_per_second: number) {
  const counts = { rows_in: 0, bytes_in: 0, rows_out: 0, bytes_out: 0 };
  const times = { busy: 0.5, starved: 0.5, blocked: 0 };
  const instances = [{ name: `${id}.0`, worker: "w0", ...times, bytes_per_second }];
  const rates = { rows_per_second: bytes_per_second / 100, bytes_per_second };
  return { id, count: 1, state: "busy", ...times, ...counts, ...rates, instances };
}

function progress(seconds: number, rates: Readonly<Record<string, number>>): Progress {
  const ids = Object.keys(rates);
  const queues = ids.slice(1).map((to, i) => ({
    from: [ids[i] ?? "", "out"] as const,
    to: [to, "in"] as const,
    rows_per_second: 0,
    bytes_per_second: rates[ids[i] ?? ""] ?? 0,
    waiting_bytes: 4,
    bound_bytes: 8,
  }));
  const modules = ids.map((id) => module(id, rates[id] ?? 0));
  return { run: "1", seconds, modules, queues, slow: [], bottleneck: null };
}

beforeEach(() => showRun(RUN));

test("unchanged entries keep their identity, changed ones do not", () => {
  applyProgress(progress(1, { a: 5, b: 7, c: 9 }));
  const before = useLive.getState();
  applyProgress(progress(1.25, { a: 5, b: 8e6, c: 9 }));
  const now = useLive.getState();
  for (const id of ["a", "c"]) expect(now.modules.get(id)).toBe(before.modules.get(id));
  expect(now.modules.get("b")).not.toBe(before.modules.get("b"));
  expect(now.queues.get(portKey(["a", "out"]))).toBe(before.queues.get(portKey(["a", "out"])));
  expect(now.queues.get(portKey(["b", "out"]))).not.toBe(before.queues.get(portKey(["b", "out"])));
  applyProgress(progress(1.5, { a: 5, b: 8e6, c: 9 }));
  expect(useLive.getState().modules).toBe(now.modules);
  expect(useLive.getState().queues).toBe(now.queues);
});

test("a trace holds a minute of seconds and keeps its identity when constant", () => {
  for (let second = 1; second <= 100; second += 1) applyProgress(progress(second, { a: second }));
  const trace = useLive.getState().modules.get("a")?.trace;
  expect(trace?.length).toBe(60);
  expect(trace?.at(-1)).toBe(100);
  for (let second = 101; second <= 200; second += 1) applyProgress(progress(second, { a: 7 }));
  const rested = useLive.getState().modules.get("a");
  applyProgress(progress(201, { a: 7 }));
  expect(useLive.getState().modules.get("a")).toBe(rested);
});

test("badges of instances appear on their module; those of disks do not", () => {
  const said = progress(1, { "a.b": 1, a: 2 });
  const bottleneck = { name: "a.b.0", kind: "instance", why: "it is slow" } as const;
  applyProgress({ ...said, slow: [{ name: "a.b.0", factor: 4 }], bottleneck });
  const { modules } = useLive.getState();
  expect(modules.get("a.b")).toMatchObject({ slow: "a.b.0", bottleneck: "it is slow" });
  expect(modules.get("a")?.slow).toBeUndefined();
  applyProgress({ ...said, bottleneck: { name: "a", kind: "disk", why: "it is slow" } });
  expect(useLive.getState().modules.get("a")?.bottleneck).toBeUndefined();
});

test("badges of internal parts appear on the visible module", () => {
  showRun({ ...RUN, flow: place(newFlow(), "sort").flow });
  const said = progress(1, { sort_1_partition: 1, sort_1: 2 });
  applyProgress({ ...said, slow: [{ name: "sort_1_partition.0", factor: null }] });
  expect(useLive.getState().modules.get("sort_1")?.slow).toBe("sort_1_partition.0");
});

test("a queue's level stays within its bounds", () => {
  forSeeds(200, (random) => {
    const [waiting_bytes, bound_bytes] = [random.below(1000), random.below(4) * 100];
    const said = progress(1, { a: 1, b: 1 });
    const queues = said.queues.map((queue) => ({ ...queue, waiting_bytes, bound_bytes }));
    applyProgress({ ...said, queues });
    const live = useLive.getState().queues.get(portKey(["a", "out"]));
    expect(live?.level).toBeGreaterThanOrEqual(0);
    expect(live?.level).toBeLessThanOrEqual(LEVEL_MAX);
  });
});

test("a finished run shows the totals of its report", () => {
  applyProgress({
    ...progress(2, { a: 100, b: 0 }),
    bottleneck: { name: "a", kind: "module", why: "it works 100 % of its time" },
  });
  const last = useLive.getState().progress;
  const times = { busy: 0.25, starved: 0.75, blocked: 0 };
  const source = { rows_in: 0, bytes_in: 0, rows_out: 80, bytes_out: 8000 };
  const sink = { rows_in: 80, bytes_in: 8000, rows_out: 0, bytes_out: 0 };
  const modules = [
    { id: "a", module: "python", count: 1, ...times, ...source },
    { id: "b", module: "collect", count: 1, ...times, ...sink },
  ];
  const nothing = { ideal_seconds: null, fraction_of_ideal: null, ideal_bound: null };
  const slow = { name: "a.0", from_seconds: 0, to_seconds: 2, factor: 3, than_before: false };
  const report: Report = {
    ...{ seconds: 4, modules, bottleneck: "b", ...nothing, divided_seconds: null },
    slow: [{ ...slow, share_moved: null, share_equal: null }],
  };
  showRun({ ...RUN, state: "done", progress: last, report });
  const { modules: cards, queues } = useLive.getState();
  expect(cards.get("a")).toMatchObject({ busy: 25, slow: "a.0", bottleneck: undefined, trace: [] });
  expect(cards.get("a")?.rate).toBe("20 rows/s · 2.00 kB/s");
  expect(cards.get("b")?.bottleneck).toBe("the module that waited least for others");
  expect(queues.get(portKey(["a", "out"]))).toMatchObject({
    level: 0,
    rate: "20 rows/s · 2.00 kB/s",
  });
});

test("a newly shown run restores traces from its history", () => {
  const series = ["a.0", "a.1"].map((name) => ({
    name,
    module: "a",
    bytes_per_second: [1, 2, 3],
  }));
  showRun({ ...RUN, history: { seconds: [1, 2, 3], series } });
  expect(useLive.getState().modules.get("a")?.trace).toEqual([2, 4, 6]);
});

test("routes round-trip through the URL hash", () => {
  forSeeds(500, (random) => {
    const [run, name, module] = ["6a3f-1b-0", random.text(), random.text() || "m"];
    if (/\p{Cs}/u.test(name + module)) return;
    const queue = random.below(100);
    for (const route of [{}, { run }, { run, queue }, { run, module }, { run, other: "7" }]) {
      expect(parseRoute(formatRoute(route))).toEqual(route);
    }
    const file = `${encodeURIComponent(name || "1")}/${encodeURIComponent(module)}.json`;
    expect(parseRoute(formatRoute({ file }))).toEqual({ file });
  });
  expect(parseRoute("#/nonsense/%zz")).toEqual({});
  for (const hash of ["", "#/run/../../session", "#/run/%2e%2e%2fsession", "#/compare/1/a%2fb"]) {
    expect(parseRoute(hash)).toEqual({});
  }
});

test("names with bidirectional text are isolated", () => {
  expect(isolateBidi("a.json")).toBe("a.json");
  expect(isolateBidi("\u202ea")).toBe("\u2068\u202ea\u2069");
  expect(isolateBidi("\u2069\u202ea")).toBe("\u2068\u202ea\u2069");
  expect(isolateBidi("שלום.json")).toBe("\u2068שלום.json\u2069");
});

test("numbers have three significant digits", () => {
  expect([0, 7, 999, 1234, 98_100_000, 1.5e12].map(formatBytes)).toEqual([
    "0 B",
    "7 B",
    "999 B",
    "1.23 kB",
    "98.1 MB",
    "1.50 TB",
  ]);
  expect(formatCount(9_999_999)).toBe("10.0 M");
  expect([0.25, 12.34, 125, 3725].map(formatSeconds)).toEqual([
    "0.25 s",
    "12.3 s",
    "2:05 min",
    "1:02:05",
  ]);
});

test("a large flow is published over several frames, ending with the newest progress", () => {
  const frames: (() => void)[] = [];
  vi.stubGlobal("requestAnimationFrame", (next: () => void) => frames.push(next));
  const rates = (bytes: number) =>
    Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`m${i}`, bytes + 1e6 * i]));
  const shown = (rate: string) =>
    [...useLive.getState().modules.values()].filter((module) => module.rate.includes(rate)).length;
  try {
    applyProgress(progress(1, rates(1e9)));
    expect(shown("GB/s")).toBeGreaterThan(0);
    expect(shown("GB/s")).toBeLessThan(500);
    applyProgress(progress(1.25, rates(1e12)));
    expect(frames.length).toBe(1);
    while (frames.length > 0) frames.shift()?.();
    expect(shown("TB/s")).toBe(500);
  } finally {
    vi.unstubAllGlobals();
  }
});
