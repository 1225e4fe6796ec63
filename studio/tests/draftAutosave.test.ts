// Drafts of files with a stub server: saving, restoring, conflicts with other writers.

import { afterEach, beforeEach, expect, test } from "vitest";
import type { Backend, FileText, Listener, Run, Session } from "../src/app/backend/api";
import { keepDrafts } from "../src/app/files/draftAutosave";
import { draftText } from "../src/app/files/draftStore";
import {
  beginUnnamed,
  noticeChange,
  openPath,
  saveOpened,
  saveTo,
  settleConflict,
  useOpened,
} from "../src/app/files/openFile";
import { followRun } from "../src/app/run/runControl";
import { go } from "../src/app/state/routeStore";
import { meet, useServer } from "../src/app/state/serverStore";
import { back, edit, flowNow, isDirty, useStudio } from "../src/app/state/studioStore";
import { place } from "../src/document/edits";
import { newFlow } from "../src/document/flow";
import { writePython } from "../src/document/python/writePython";
import { BUILT_IN } from "../src/document/specs";
import { write } from "../src/document/writeDocument";
import { no, withBackend, withWindow } from "./stubs";

const DRAWN = place(newFlow(), "scan").flow;

let tell: (event: string) => void;
let stop = () => {};
let files: Map<string, FileText>;
let drafts: Map<string, FileText>;
let saves: (string | null)[];
let numbers: number;

/** Stores a text if `seen` is the stored version; else fails with 409. */
function put(store: Map<string, FileText>, path: string, text: string, seen: string | null) {
  const there = store.get(path);
  if ((there?.version ?? null) !== seen) throw no("it has changed", 409, there);
  numbers += 1;
  store.set(path, { text, version: `v${numbers}` });
  return `v${numbers}`;
}

const SERVER: Partial<Backend> = {
  read: async (path) => files.get(path) ?? Promise.reject(no("it is not there", 404)),
  save: async (path, text, version) => {
    saves.push(version);
    return put(files, path, text, version);
  },
  readDraft: async (path) => drafts.get(path),
  saveDraft: async (path, text, version) => put(drafts, path, text, version),
  dropDraft: async (path) => void drafts.delete(path),
};

/** What the page fetches on connect. */
const LISTS: Partial<Backend> = {
  files: async () => [],
  runs: async () => [],
  modules: async () => [...BUILT_IN.values()],
};

beforeEach(() => {
  tell = withWindow();
  withBackend(SERVER);
  [files, drafts, saves, numbers] = [new Map(), new Map(), [], 0];
  put(files, "a.json", write(newFlow()), null);
  beginUnnamed(newFlow());
  stop = keepDrafts();
});

afterEach(() => {
  stop();
  go({});
});

function draw(module = "scan"): void {
  edit("place", (flow) => place(flow, module).flow);
}

/** Leaves the page and opens a file in a new one. */
async function leaveAndOpen(path: string): Promise<void> {
  tell("pagehide");
  await settled();
  beginUnnamed(newFlow());
  await openPath(path);
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((done) => setTimeout(done));
}

function notices(): string {
  return useServer
    .getState()
    .notices.map(({ text }) => text)
    .join(" ");
}

function isDrawn(): boolean {
  return flowNow().modules.length === 1 && isDirty(useStudio.getState());
}

test("unsaved edits are restored on top of their file version", async () => {
  await openPath("a.json");
  draw();
  await leaveAndOpen("a.json");
  expect(isDrawn()).toBe(true);
  expect(notices()).not.toContain("changed");
  expect(await saveOpened()).toBe("saved");
  expect(files.get("a.json")?.text).toContain("scan_1");
  await settled();
  expect(drafts.size).toBe(0);
});

test("saving a draft over a changed file asks first", async () => {
  await openPath("a.json");
  draw();
  tell("pagehide");
  await settled();
  beginUnnamed(newFlow());
  const theirs = write({ ...newFlow(), name: "theirs" });
  put(files, "a.json", theirs, "v1");
  await openPath("a.json");
  expect(isDrawn()).toBe(true);
  expect(notices()).toContain("saving will ask which is to stay");
  await saveOpened();
  expect(files.get("a.json")?.text).toBe(theirs);
  expect(useOpened.getState().conflict?.theirs.text).toBe(theirs);
  await settleConflict("theirs");
  expect(flowNow().name).toBe("theirs");
  await settled();
  expect(drafts.size).toBe(0);
  draw();
  tell("pagehide");
  await settled();
  expect(drafts.get("a.json")?.text).toContain("scan_1");
  expect(notices()).not.toContain("Another window");
});

test("saving under another path deletes the draft of the old path", async () => {
  await openPath("a.json");
  draw();
  tell("pagehide");
  await settled();
  expect(drafts.size).toBe(1);
  expect(await saveTo("b.json", null)).toBe(true);
  await settled();
  expect(drafts.size).toBe(0);
  beginUnnamed(newFlow());
  await openPath("a.json");
  expect(isDirty(useStudio.getState())).toBe(false);
});

test("loading the other version from a save conflict asks before dropping edits", async () => {
  put(files, "b.json", write(DRAWN), null);
  draw("filter");
  await saveTo("b.json", null);
  const asked: string[] = [];
  Object.assign(window, { confirm: (text: string) => asked.push(text) === 0 });
  await settleConflict("theirs");
  expect(asked.length).toBe(1);
  expect(flowNow().modules[0]?.module).toBe("filter");
});

test("a redundant or unreadable draft is ignored and replaced", async () => {
  const odd = [draftText({ flow: newFlow(), base: "v1" }), "torn"];
  for (const text of odd) {
    drafts.clear();
    put(drafts, "a.json", text, null);
    beginUnnamed(newFlow());
    await openPath("a.json");
    expect(isDirty(useStudio.getState())).toBe(false);
    expect(notices().includes("cannot be read")).toBe(text === "torn");
    draw();
    tell("pagehide");
    await settled();
    expect(drafts.get("a.json")?.text).toContain("scan_1");
    expect(notices()).not.toContain("Another window");
  }
});

test("edits without the server are kept in the browser until it is back", async () => {
  await openPath("a.json");
  useServer.setState({ link: "lost" });
  draw();
  tell("pagehide");
  await settled();
  expect(drafts.size).toBe(0);
  useServer.setState({ link: "up" });
  await settled();
  expect(drafts.get("a.json")?.text).toContain("scan_1");
  back();
  useServer.setState({ link: "lost" });
  draw("filter");
  // The tab closes before the server is back.
  tell("pagehide");
  stop();
  useServer.setState({ link: "up" });
  beginUnnamed(newFlow());
  stop = keepDrafts();
  await openPath("a.json");
  expect(flowNow().modules[0]?.module).toBe("filter");
  tell("pagehide");
  await settled();
  expect(drafts.get("a.json")?.text).toContain("filter_1");
  expect(notices()).not.toContain("Another window");
});

test("draft saves are chained on a slow server", async () => {
  await openPath("a.json");
  let kept = 0;
  const saveDraft: Backend["saveDraft"] = async (path, text, version) => {
    await new Promise((done) => setTimeout(done, 20));
    const saved = put(drafts, path, text, version);
    kept += 1;
    return saved;
  };
  withBackend({ ...SERVER, saveDraft });
  for (const module of ["scan", "filter", "collect"]) {
    draw(module);
    tell("pagehide");
  }
  await expect.poll(() => kept).toBe(3);
  expect(drafts.get("a.json")?.text).toContain("collect_1");
  expect(notices()).toBe("");
});

test("a flow saved as a script restores its draft and follows changes", async () => {
  draw();
  expect(await saveTo("flow.py", null)).toBe(true);
  draw("filter");
  await leaveAndOpen("flow.py");
  expect(flowNow().modules.map(({ module }) => module)).toEqual(["scan", "filter"]);
  expect(useOpened.getState().path).toBeUndefined();
  await settled();
  expect(drafts.size).toBe(0);
  beginUnnamed(DRAWN);
  expect(await saveTo("other.py", null)).toBe(true);
  const theirs = writePython(place(DRAWN, "collect").flow, BUILT_IN);
  put(files, "other.py", theirs, files.get("other.py")?.version ?? null);
  await noticeChange("other.py");
  expect(flowNow().modules.map(({ module }) => module)).toEqual(["scan", "collect"]);
  expect(useOpened.getState().path).toBeUndefined();
});

test("a late response to an earlier open request is ignored", async () => {
  put(files, "b.json", write(DRAWN), null);
  let answer = () => {};
  const late = new Promise<void>((done) => {
    answer = done;
  });
  const read: Backend["read"] = async (path) => {
    if (path === "a.json") await late;
    return files.get(path) ?? Promise.reject(no("it is not there", 404));
  };
  withBackend({ ...SERVER, read });
  const first = openPath("a.json");
  await openPath("b.json");
  answer();
  await first;
  expect(useOpened.getState().path).toBe("b.json");
  expect(flowNow().modules.length).toBe(1);
});

test("a change during opening is loaded", async () => {
  let goOn = () => {};
  const late = new Promise<void>((done) => {
    goOn = done;
  });
  const read: Backend["read"] = async (path) => {
    const file = files.get(path);
    await late;
    return file ?? Promise.reject(no("it is not there", 404));
  };
  withBackend({ ...SERVER, read });
  const opening = openPath("a.json");
  put(files, "a.json", write(DRAWN), files.get("a.json")?.version ?? null);
  await noticeChange("a.json");
  expect(useOpened.getState().path).toBeUndefined();
  goOn();
  await opening;
  expect(flowNow()).toEqual(DRAWN);
});

test("connecting and reconnecting call the connect handler", async () => {
  let onLink: Listener["onLink"] = () => {};
  const looked: string[] = [];
  const listen: Backend["listen"] = (listener) => {
    onLink = listener.onLink;
    return () => {};
  };
  const session: Backend["session"] = async () => ({}) as Session;
  const backend = { ...SERVER, session, listen, ...LISTS } as unknown as Backend;
  const look = () => void looked.push("again");
  expect(await meet(backend, () => {}, look)).toBe(true);
  expect(looked.length).toBe(0);
  onLink(true);
  expect(looked.length).toBe(1);
  onLink(false);
  onLink(true);
  await expect.poll(() => looked.length).toBe(2);
});

test("watching a run does not load its flow into an open empty file", async () => {
  const run = async () => ({ id: "1", state: "running", flow: DRAWN, log: [] }) as unknown as Run;
  withBackend({ ...SERVER, run });
  await openPath("a.json");
  const unfollow = followRun();
  go({ run: "1" });
  await settled();
  expect(flowNow().modules.length).toBe(0);
  beginUnnamed(newFlow());
  go({ run: "1" });
  await settled();
  expect(flowNow().modules.length).toBe(1);
  unfollow();
});
