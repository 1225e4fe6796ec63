// Notices and refusals stay until they are obsolete, and no longer.

import { beforeEach, expect, test } from "vitest";
import type { Run } from "../src/app/backend/api";
import { serializeDraft } from "../src/app/files/draftStore";
import {
  handleFileChange,
  loadUnsavedFlow,
  openPath,
  saveTo,
  saveToOpenFile,
} from "../src/app/files/openFile";
import { perturb, reloadRun } from "../src/app/run/runControl";
import { showRun } from "../src/app/state/liveStore";
import { navigate } from "../src/app/state/routeStore";
import { refreshRuns, useServer } from "../src/app/state/serverStore";
import { edit, loadFlow, useStudio } from "../src/app/state/studioStore";
import { place } from "../src/document/edits";
import { newFlow } from "../src/document/flow";
import { writeDocument } from "../src/document/writeDocument";
import { errorResponse, stubBackend, stubWindow } from "./stubs";

const FILE = { text: writeDocument(newFlow()), version: "1" };
const DRAWN = { flow: place(newFlow(), "scan").flow, base: FILE.version };
const DRAFT = { text: serializeDraft(DRAWN), version: "2" };
const RUN = { id: "1", state: "running", flow: newFlow() } as Run;

const FILES = {
  read: async () => FILE,
  readDraft: async () => undefined,
  save: async () => "3",
  dropDraft: async () => {},
  run: async () => RUN,
};

beforeEach(() => {
  stubWindow();
  stubBackend(FILES);
  loadFlow(newFlow());
  loadUnsavedFlow(newFlow());
  showRun(undefined);
});

/** Restores the whole backend, keeping the notices. */
function withFiles(): void {
  const { notices } = useServer.getState();
  stubBackend(FILES);
  useServer.setState({ notices });
}

const gone = async () => Promise.reject(errorResponse("it is not there", 404));

function notices(): readonly string[] {
  return useServer.getState().notices.map(({ text }) => text);
}

function refused(): string | undefined {
  return useStudio.getState().refusal?.message;
}

test("the notice of a deleted file stays until it is saved", async () => {
  await openPath("a.json");
  stubBackend({ ...FILES, read: gone });
  await handleFileChange("a.json");
  expect(notices()).toEqual(["a.json is not there any more. Saving puts it there again."]);
  expect(await saveToOpenFile()).toBe("saved");
  expect(notices()).toEqual([]);
});

test.each([
  ["another file is opened", () => openPath("b.json")],
  ["another flow is loaded", async () => loadUnsavedFlow(newFlow())],
])("the notice of a restored draft stays until %s", async (_, leave) => {
  stubBackend({ ...FILES, readDraft: async () => DRAFT });
  await openPath("a.json");
  expect(notices()[0]).toContain("were restored");
  withFiles();
  await leave();
  expect(notices()).toEqual([]);
});

test("a refused save is shown until a save succeeds", async () => {
  stubBackend({ ...FILES, save: async () => Promise.reject(errorResponse("the path leads out")) });
  expect(await saveTo("../a.json", null)).toBe(false);
  expect(refused()).toBe("the path leads out");
  withFiles();
  expect(await saveTo("a.json", null)).toBe(true);
  expect(refused()).toBeUndefined();
});

test("a refused perturbation stays shown until one succeeds", async () => {
  edit("place", (flow) => place(flow, "scan").flow);
  showRun(RUN);
  navigate({ run: "1" });
  stubBackend({ ...FILES, perturb: async () => Promise.reject(errorResponse("the rate is none")) });
  await perturb({ disk: "d1", rate: "fast" });
  expect(refused()).toBe("the rate is none");
  await refreshRuns();
  reloadRun();
  await handleFileChange("a.json");
  await new Promise((done) => setTimeout(done));
  expect(refused()).toBe("the rate is none");
  stubBackend({ ...FILES, perturb: async () => {} });
  await perturb({ disk: "d1", rate: "5MB/s" });
  expect(refused()).toBeUndefined();
});

test("a refusal during another request stays visible", async () => {
  stubBackend({
    ...FILES,
    save: async () => {
      useStudio.setState({ refusal: { message: "that cannot be" } });
      return "3";
    },
  });
  expect(await saveTo("a.json", null)).toBe(true);
  expect(refused()).toBe("that cannot be");
});

test("a save succeeds although listing files and deleting the draft fail", async () => {
  const dropDraft = async () => Promise.reject(errorResponse("the disk is gone"));
  stubBackend({ ...FILES, readDraft: async () => DRAFT, dropDraft });
  await openPath("a.json");
  stubBackend({ ...FILES, dropDraft, files: () => new Promise(() => {}) });
  expect(await saveTo("a.json", null)).toBe(true);
  await expect.poll(refused).toBe("the disk is gone");
});
