// How often runs are started, also by previews, which read a CSV file again with its delimiter.

import { beforeEach, expect, test, vi } from "vitest";
import type { Run, RunEntry, RunRequest, RunState } from "../src/app/backend/api";
import { hasDelimiter, likelyDelimiter } from "../src/app/preview/delimiter";
import { previewFile, usePreview } from "../src/app/preview/preview";
import { handleEvent, startRun } from "../src/app/run/runControl";
import { showRun } from "../src/app/state/liveStore";
import { refreshRuns } from "../src/app/state/serverStore";
import { stubBackend, stubWindow } from "./stubs";

/** The runs that the stub server has started. */
let runs: RunEntry[] = [];

/** The delimiters that the stub server has read files with. */
let read: unknown[] = [];

vi.useFakeTimers({ toFake: ["performance"] });

beforeEach(() => {
  // Runs of the previous test must not count as just started.
  vi.advanceTimersByTime(60_000);
  stubWindow();
  showRun(undefined);
  runs = [];
  read = [];
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

/** A server whose file has this header, read with a comma or the delimiter of the flow. */
function serve(header: string): void {
  let order: RunRequest | undefined;
  stubBackend({
    start: async (request) => {
      order = request;
      const delimiter = request.flow.modules[0]?.config.get("delimiter");
      read.push(delimiter);
      return "1";
    },
    remove: async () => {},
    run: async () => {
      const delimiter = String(read.at(-1) ?? ",");
      const collector = order?.flow.modules.find(({ module }) => module === "collect")?.id ?? "";
      const schema = header.split(delimiter).map((name) => ({ name, type: "Utf8" }));
      return {
        id: "1",
        state: "done",
        collected: { [collector]: { schema, rows: [] } },
      } as unknown as Run;
    },
  });
}

test("the delimiter is told from the only column", () => {
  expect(likelyDelimiter(["id;day;price, net"])).toBe(";");
  expect(likelyDelimiter(["id\tday"])).toBe("\t");
  expect(likelyDelimiter(["id"])).toBe(undefined);
  expect(likelyDelimiter(["a;b", "c"])).toBe(undefined);
  expect(likelyDelimiter([])).toBe(undefined);
});

test("CSV files have a delimiter, also if they are compressed", () => {
  expect(["a.csv", "A.TSV", "in/a.csv.gz"].every(hasDelimiter)).toBe(true);
  expect(["a.parquet", "csv", "a.jsonl"].some(hasDelimiter)).toBe(false);
});

test("a file that has another delimiter is read again with that", async () => {
  serve("id;day");
  await previewFile("sales.csv");
  expect(read).toEqual([undefined, ";"]);
  expect(usePreview.getState().delimiter).toBe(";");
  expect(usePreview.getState().sample?.schema.length).toBe(2);
});

test("a delimiter that was chosen is kept", async () => {
  serve("id;day");
  await previewFile("sales.csv", ",");
  expect(read).toEqual([","]);
  serve("id,day");
  await previewFile("sales.csv");
  expect(read).toEqual([",", undefined]);
});
