// Drafts of files with a stub server: saving, restoring, conflicts with other writers.

import { afterEach, beforeEach, expect, test } from "vitest";
import type { Backend, BackendListener, FileText, Run, Session } from "../src/app/backend/api";
import { startDraftAutosave } from "../src/app/files/draftAutosave";
import { serializeDraft } from "../src/app/files/draftStore";
import {
  handleFileChange,
  loadUnsavedFlow,
  openPath,
  resolveConflict,
  saveTo,
  saveToOpenFile,
  useOpenFile,
} from "../src/app/files/openFile";
import { followRoute } from "../src/app/run/runControl";
import { navigate } from "../src/app/state/routeStore";
import { connectServer, useServer } from "../src/app/state/serverStore";
import { currentFlow, edit, isDirty, undoEdit, useStudio } from "../src/app/state/studioStore";
import { place } from "../src/document/edits";
import { newFlow } from "../src/document/flow";
import { writePython } from "../src/document/python/writePython";
import { BUILT_IN } from "../src/document/specs";
import { writeDocument } from "../src/document/writeDocument";
import { errorResponse, stubBackend, stubWindow } from "./stubs";

const DRAWN = place(newFlow(), "scan").flow;

let dispatch: (event: string) => void;
let stop = () => {};
let files: Map<string, FileText>;
let drafts: Map<string, FileText>;
let saves: (string | null)[];
let numbers: number;

/** Stores a text if `seen` is the stored version; else fails with 409. */
function put(store: Map<string, FileText>, path: string, text: string, seen: string | null) {
  const there = store.get(path);
  if ((there?.version ?? null) !== seen) throw errorResponse("it has changed", 409, there);
  numbers += 1;
  store.set(path, { text, version: `v${numbers}` });
  return `v${numbers}`;
}

const SERVER: Partial<Backend> = {
  read: async (path) => files.get(path) ?? Promise.reject(errorResponse("it is not there", 404)),
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
  dispatch = stubWindow();
  stubBackend(SERVER);
  [files, drafts, saves, numbers] = [new Map(), new Map(), [], 0];
  put(files, "a.json", writeDocument(newFlow()), null);
  loadUnsavedFlow(newFlow());
  stop = startDraftAutosave();
});

afterEach(() => {
  stop();
  navigate({});
});

function draw(module = "scan"): void {
  edit("place", (flow) => place(flow, module).flow);
}

/** Leaves the page and opens a file in a new one. */
async function leaveAndOpen(path: string): Promise<void> {
  dispatch("pagehide");
  await settled();
  loadUnsavedFlow(newFlow());
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
  return currentFlow().modules.length === 1 && isDirty(useStudio.getState());
}

test("unsaved edits are restored on top of their file version", async () => {
  await openPath("a.json");
  draw();
  await leaveAndOpen("a.json");
  expect(isDrawn()).toBe(true);
  expect(notices()).not.toContain("changed");
  expect(await saveToOpenFile()).toBe("saved");
  expect(files.get("a.json")?.text).toContain("scan_1");
  await settled();
  expect(drafts.size).toBe(0);
});

test("saving a draft over a changed file asks first", async () => {
  await openPath("a.json");
  draw();
  dispatch("pagehide");
  await settled();
  loadUnsavedFlow(newFlow());
  const theirs = writeDocument({ ...newFlow(), name: "theirs" });
  put(files, "a.json", theirs, "v1");
  await openPath("a.json");
  expect(isDrawn()).toBe(true);
  expect(notices()).toContain("saving will ask which is to stay");
  await saveToOpenFile();
  expect(files.get("a.json")?.text).toBe(theirs);
  expect(useOpenFile.getState().conflict?.theirs.text).toBe(theirs);
  await resolveConflict("theirs");
  expect(currentFlow().name).toBe("theirs");
  await settled();
  expect(drafts.size).toBe(0);
  draw();
  dispatch("pagehide");
  await settled();
  expect(drafts.get("a.json")?.text).toContain("scan_1");
  expect(notices()).not.toContain("Another window");
});

test("saving under another path deletes the draft of the old path", async () => {
  await openPath("a.json");
  draw();
  dispatch("pagehide");
  await settled();
  expect(drafts.size).toBe(1);
  expect(await saveTo("b.json", null)).toBe(true);
  await settled();
  expect(drafts.size).toBe(0);
  loadUnsavedFlow(newFlow());
  await openPath("a.json");
  expect(isDirty(useStudio.getState())).toBe(false);
});

test("loading the other version from a save conflict asks before dropping edits", async () => {
  put(files, "b.json", writeDocument(DRAWN), null);
  draw("filter");
  await saveTo("b.json", null);
  const asked: string[] = [];
  Object.assign(window, { confirm: (text: string) => asked.push(text) === 0 });
  await resolveConflict("theirs");
  expect(asked.length).toBe(1);
  expect(currentFlow().modules[0]?.module).toBe("filter");
});

test("a redundant or unreadable draft is ignored and replaced", async () => {
  const odd = [serializeDraft({ flow: newFlow(), base: "v1" }), "torn"];
  for (const text of odd) {
    drafts.clear();
    put(drafts, "a.json", text, null);
    loadUnsavedFlow(newFlow());
    await openPath("a.json");
    expect(isDirty(useStudio.getState())).toBe(false);
    expect(notices().includes("cannot be read")).toBe(text === "torn");
    draw();
    dispatch("pagehide");
    await settled();
    expect(drafts.get("a.json")?.text).toContain("scan_1");
    expect(notices()).not.toContain("Another window");
  }
});

test("edits without the server are kept in the browser until it is back", async () => {
  await openPath("a.json");
  useServer.setState({ link: "lost" });
  draw();
  dispatch("pagehide");
  await settled();
  expect(drafts.size).toBe(0);
  useServer.setState({ link: "up" });
  await settled();
  expect(drafts.get("a.json")?.text).toContain("scan_1");
  undoEdit();
  useServer.setState({ link: "lost" });
  draw("filter");
  // The tab closes before the server is back.
  dispatch("pagehide");
  stop();
  useServer.setState({ link: "up" });
  loadUnsavedFlow(newFlow());
  stop = startDraftAutosave();
  await openPath("a.json");
  expect(currentFlow().modules[0]?.module).toBe("filter");
  dispatch("pagehide");
  await settled();
  expect(drafts.get("a.json")?.text).toContain("filter_1");
  expect(notices()).not.toContain("Another window");
});

test("draft saves are chained on a slow server", async () => {
  await openPath("a.json");
  let saveCount = 0;
  const saveDraft: Backend["saveDraft"] = async (path, text, version) => {
    await new Promise((done) => setTimeout(done, 20));
    const saved = put(drafts, path, text, version);
    saveCount += 1;
    return saved;
  };
  stubBackend({ ...SERVER, saveDraft });
  for (const module of ["scan", "filter", "collect"]) {
    draw(module);
    dispatch("pagehide");
  }
  await expect.poll(() => saveCount).toBe(3);
  expect(drafts.get("a.json")?.text).toContain("collect_1");
  expect(notices()).toBe("");
});

test("a flow saved as a script restores its draft and follows changes", async () => {
  draw();
  expect(await saveTo("flow.py", null)).toBe(true);
  draw("filter");
  await leaveAndOpen("flow.py");
  expect(currentFlow().modules.map(({ module }) => module)).toEqual(["scan", "filter"]);
  expect(useOpenFile.getState().path).toBeUndefined();
  await settled();
  expect(drafts.size).toBe(0);
  loadUnsavedFlow(DRAWN);
  expect(await saveTo("other.py", null)).toBe(true);
  const theirs = writePython(place(DRAWN, "collect").flow, BUILT_IN);
  put(files, "other.py", theirs, files.get("other.py")?.version ?? null);
  await handleFileChange("other.py");
  expect(currentFlow().modules.map(({ module }) => module)).toEqual(["scan", "collect"]);
  expect(useOpenFile.getState().path).toBeUndefined();
});

test("a late response to an earlier open request is ignored", async () => {
  put(files, "b.json", writeDocument(DRAWN), null);
  let answer = () => {};
  const release = new Promise<void>((done) => {
    answer = done;
  });
  const read: Backend["read"] = async (path) => {
    if (path === "a.json") await release;
    return files.get(path) ?? Promise.reject(errorResponse("it is not there", 404));
  };
  stubBackend({ ...SERVER, read });
  const first = openPath("a.json");
  await openPath("b.json");
  answer();
  await first;
  expect(useOpenFile.getState().path).toBe("b.json");
  expect(currentFlow().modules.length).toBe(1);
});

test("a change during opening is loaded", async () => {
  let goOn = () => {};
  const late = new Promise<void>((done) => {
    goOn = done;
  });
  const read: Backend["read"] = async (path) => {
    const file = files.get(path);
    await late;
    return file ?? Promise.reject(errorResponse("it is not there", 404));
  };
  stubBackend({ ...SERVER, read });
  const opening = openPath("a.json");
  put(files, "a.json", writeDocument(DRAWN), files.get("a.json")?.version ?? null);
  await handleFileChange("a.json");
  expect(useOpenFile.getState().path).toBeUndefined();
  goOn();
  await opening;
  expect(currentFlow()).toEqual(DRAWN);
});

test("connecting and reconnecting call the connect handler", async () => {
  let onLink: BackendListener["onLink"] = () => {};
  const connects: string[] = [];
  const listen: Backend["listen"] = (listener) => {
    onLink = listener.onLink;
    return () => {};
  };
  const session: Backend["session"] = async () => ({}) as Session;
  const backend = { ...SERVER, session, listen, ...LISTS } as unknown as Backend;
  const onConnect = () => void connects.push("again");
  expect(await connectServer(backend, () => {}, onConnect)).toBe(true);
  expect(connects.length).toBe(0);
  onLink(true);
  expect(connects.length).toBe(1);
  onLink(false);
  onLink(true);
  await expect.poll(() => connects.length).toBe(2);
});

test("watching a run does not load its flow into an open empty file", async () => {
  const run = async () => ({ id: "1", state: "running", flow: DRAWN, log: [] }) as unknown as Run;
  stubBackend({ ...SERVER, run });
  await openPath("a.json");
  const unfollow = followRoute();
  navigate({ run: "1" });
  await settled();
  expect(currentFlow().modules.length).toBe(0);
  loadUnsavedFlow(newFlow());
  navigate({ run: "1" });
  await settled();
  expect(currentFlow().modules.length).toBe(1);
  unfollow();
});
