// How often runs are started.

import { beforeEach, expect, test, vi } from "vitest";
import type { RunEntry, RunState } from "../src/app/backend/api";
import { hear, start } from "../src/app/run/runControl";
import { show } from "../src/app/state/liveStore";
import { listRuns } from "../src/app/state/serverStore";
import { withBackend, withWindow } from "./stubs";

/** The runs that the stub server has started. */
let runs: RunEntry[] = [];

vi.useFakeTimers({ toFake: ["performance"] });

beforeEach(() => {
  // Runs of the previous test must not count as just started.
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

test("a double click starts one run, before or after the response", async () => {
  await Promise.all([start(), start(), start()]);
  expect(runs.length).toBe(1);
  await start();
  vi.advanceTimersByTime(400);
  await start();
  expect(runs.length).toBe(1);
});

test("a second run starts after a delay, or at once if the first has ended", async () => {
  await start();
  vi.advanceTimersByTime(600);
  await start();
  expect(runs.length).toBe(2);
  await ended("done");
  await start();
  expect(runs.length).toBe(3);
});

test("a failed start can be retried at once", async () => {
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
