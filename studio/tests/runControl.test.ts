// How often runs are started.

import { beforeEach, expect, test, vi } from "vitest";
import type { RunEntry, RunState } from "../src/app/backend/api";
import { handleEvent, startRun } from "../src/app/run/runControl";
import { showRun } from "../src/app/state/liveStore";
import { refreshRuns } from "../src/app/state/serverStore";
import { stubBackend, stubWindow } from "./stubs";

/** The runs that the stub server has started. */
let runs: RunEntry[] = [];

vi.useFakeTimers({ toFake: ["performance"] });

beforeEach(() => {
  // Runs of the previous test must not count as just started.
  vi.advanceTimersByTime(60_000);
  stubWindow();
  showRun(undefined);
  runs = [];
  stubBackend({ start: async () => started(), runs: async () => [...runs] });
});

function started(): string {
  const id = String(runs.length + 1);
  const usual = { name: "flow", started: 0, seconds: 0, cluster: "", variables: {} };
  runs.push({ id, state: "running", ...usual });
  return id;
}

async function endAll(state: RunState): Promise<void> {
  runs = runs.map((run) => ({ ...run, state }));
  handleEvent({ type: "runs" });
  await refreshRuns();
}

test("a double click starts one run, before or after the response", async () => {
  await Promise.all([startRun(), startRun(), startRun()]);
  expect(runs.length).toBe(1);
  await startRun();
  vi.advanceTimersByTime(400);
  await startRun();
  expect(runs.length).toBe(1);
});

test("a second run starts after a delay, or at once if the first has ended", async () => {
  await startRun();
  vi.advanceTimersByTime(600);
  await startRun();
  expect(runs.length).toBe(2);
  await endAll("done");
  await startRun();
  expect(runs.length).toBe(3);
});

test("a failed start can be retried at once", async () => {
  const tried: string[] = [];
  stubBackend({
    start: async () => {
      tried.push("start");
      throw new Error("no");
    },
  });
  await expect(startRun()).rejects.toThrow("no");
  await expect(startRun()).rejects.toThrow("no");
  expect(tried.length).toBe(2);
});
