// What is asked of runs, without a page: how often a run is started.

import { beforeEach, expect, test, vi } from "vitest";
import type { RunEntry, RunState } from "../src/app/backend/border";
import { show } from "../src/app/live";
import { hear, start } from "../src/app/running";
import { listRuns } from "../src/app/server";
import { withBackend, withWindow } from "./page";

/** The runs that the server has been told to start. */
let runs: RunEntry[] = [];

vi.useFakeTimers({ toFake: ["performance"] });

beforeEach(() => {
  // What one test started last is long ago in the next.
  vi.advanceTimersByTime(60_000);
  withWindow();
  show(undefined);
  runs = [];
  withBackend({ start: async () => begun(), runs: async () => [...runs] });
});

function begun(): string {
  const id = String(runs.length + 1);
  const usual = { name: "flow", started: 0, seconds: 0, cluster: "", variables: {} };
  runs.push({ id, state: "running", ...usual });
  return id;
}

async function ended(state: RunState): Promise<void> {
  runs = runs.map((run) => ({ ...run, state }));
  hear({ type: "runs" });
  await listRuns();
}

test("a double click starts one run, be it before the answer or just after", async () => {
  await Promise.all([start(), start(), start()]);
  expect(runs.length).toBe(1);
  await start();
  vi.advanceTimersByTime(400);
  await start();
  expect(runs.length).toBe(1);
});

test("a second run is started later, and at once if the first has ended", async () => {
  await start();
  vi.advanceTimersByTime(600);
  await start();
  expect(runs.length).toBe(2);
  await ended("done");
  await start();
  expect(runs.length).toBe(3);
});

test("a run that could not be started can be tried again at once", async () => {
  const tried: string[] = [];
  withBackend({
    start: async () => {
      tried.push("start");
      throw new Error("no");
    },
  });
  await expect(start()).rejects.toThrow("no");
  await expect(start()).rejects.toThrow("no");
  expect(tried.length).toBe(2);
});
