// How long what is told is told: until it is over, and no longer.

import { beforeEach, expect, test } from "vitest";
import type { Run } from "../src/app/backend/border";
import { draftText } from "../src/app/beside";
import { beginUnnamed, noticeChange, openPath, saveOpened, saveTo } from "../src/app/files";
import { show } from "../src/app/live";
import { go } from "../src/app/route";
import { perturb, rewatch } from "../src/app/running";
import { listRuns, useServer } from "../src/app/server";
import { begin, edit, useStudio } from "../src/app/studio";
import { place } from "../src/document/edits";
import { newFlow } from "../src/document/flow";
import { write } from "../src/document/write";
import { no, withBackend, withWindow } from "./page";

const FILE = { text: write(newFlow()), version: "1" };
const DRAWN = { flow: place(newFlow(), "scan").flow, base: FILE.version };
const DRAFT = { text: draftText(DRAWN), version: "2" };
const RUN = { id: "1", state: "running", flow: newFlow() } as Run;

const FILES = {
  read: async () => FILE,
  readDraft: async () => undefined,
  save: async () => "3",
  dropDraft: async () => {},
  run: async () => RUN,
};

beforeEach(() => {
  withWindow();
  withBackend(FILES);
  begin(newFlow());
  beginUnnamed(newFlow());
  show(undefined);
});

/** The server can do all of it again, and what was told of it stays. */
function withFiles(): void {
  const { notices } = useServer.getState();
  withBackend(FILES);
  useServer.setState({ notices });
}

const gone = async () => Promise.reject(no("it is not there", 404));

function notices(): readonly string[] {
  return useServer.getState().notices.map(({ text }) => text);
}

function refused(): string | undefined {
  return useStudio.getState().refused?.message;
}

test("that a file is gone is told until it is saved", async () => {
  await openPath("a.json");
  withBackend({ ...FILES, read: gone });
  await noticeChange("a.json");
  expect(notices()).toEqual(["a.json is not there any more. Saving puts it there again."]);
  expect(await saveOpened()).toBe("saved");
  expect(notices()).toEqual([]);
});

test.each([
  ["another file is opened", () => openPath("b.json")],
  ["another flow is begun", async () => beginUnnamed(newFlow())],
])("that a draft was taken up is told until %s", async (_, leave) => {
  withBackend({ ...FILES, readDraft: async () => DRAFT });
  await openPath("a.json");
  expect(notices()[0]).toContain("here again");
  withFiles();
  await leave();
  expect(notices()).toEqual([]);
});

test("why it could not be saved is told until it is", async () => {
  withBackend({ ...FILES, save: async () => Promise.reject(no("the path leads out")) });
  expect(await saveTo("../a.json", null)).toBe(false);
  expect(refused()).toBe("the path leads out");
  withFiles();
  expect(await saveTo("a.json", null)).toBe(true);
  expect(refused()).toBeUndefined();
});

test("why nothing was slowed is told until something is, and not hidden by the page", async () => {
  edit("place", (flow) => place(flow, "scan").flow);
  show(RUN);
  go({ run: "1" });
  withBackend({ ...FILES, perturb: async () => Promise.reject(no("the rate is none")) });
  await perturb({ disk: "d1", rate: "fast" });
  expect(refused()).toBe("the rate is none");
  await listRuns();
  rewatch();
  await noticeChange("a.json");
  await new Promise((done) => setTimeout(done));
  expect(refused()).toBe("the rate is none");
  withBackend({ ...FILES, perturb: async () => {} });
  await perturb({ disk: "d1", rate: "5MB/s" });
  expect(refused()).toBeUndefined();
});

test("what was refused while something else was done stays to be read", async () => {
  withBackend({
    ...FILES,
    save: async () => {
      useStudio.setState({ refused: { message: "that cannot be" } });
      return "3";
    },
  });
  expect(await saveTo("a.json", null)).toBe(true);
  expect(refused()).toBe("that cannot be");
});

test("a flow is saved though its files are not listed, and its draft stays", async () => {
  const dropDraft = async () => Promise.reject(no("the disk is gone"));
  withBackend({ ...FILES, readDraft: async () => DRAFT, dropDraft });
  await openPath("a.json");
  withBackend({ ...FILES, dropDraft, files: () => new Promise(() => {}) });
  expect(await saveTo("a.json", null)).toBe(true);
  await expect.poll(refused).toBe("the disk is gone");
});
