// The localStorage draft of a flow without a file.

import { afterEach, beforeEach, expect, test } from "vitest";
import type { Session } from "../src/app/backend/api";
import { startBrowserDraft } from "../src/app/files/browserDraft";
import { openPath, useOpenFile } from "../src/app/files/openFile";
import { useServer } from "../src/app/state/serverStore";
import {
  currentFlow,
  edit,
  isDirty,
  loadFlow,
  undoEdit,
  useStudio,
} from "../src/app/state/studioStore";
import { place } from "../src/document/edits";
import { newFlow } from "../src/document/flow";
import { writeDocument } from "../src/document/writeDocument";
import { errorResponse, stubStorage as storeOf, stubBackend, stubWindow } from "./stubs";

const KEY = "euphrates.draft";
const MINE = writeDocument(place(newFlow(), "scan").flow);

let dispatch: (event: string) => void;
let stop = () => {};

beforeEach(() => {
  dispatch = stubWindow();
  loadFlow(newFlow());
  useOpenFile.setState({ path: undefined, version: null, draft: null });
});

afterEach(() => {
  stop();
  useServer.setState({ session: undefined });
});

/** A storage with an optional draft. */
function storageOf(draft?: string): Storage {
  return storeOf(draft === undefined ? [] : [[KEY, draft]]);
}

test("a restored draft counts as unsaved and can be undone", () => {
  stop = startBrowserDraft(storageOf(MINE));
  expect(writeDocument(currentFlow())).toBe(MINE);
  expect(isDirty(useStudio.getState())).toBe(true);
  undoEdit();
  expect(writeDocument(currentFlow())).toBe(writeDocument(newFlow()));
  expect(isDirty(useStudio.getState())).toBe(false);
});

test("opening a file over a restored draft asks first", async () => {
  const asked: string[] = [];
  stop = startBrowserDraft(storageOf(MINE));
  Object.assign(window, { confirm: (text: string) => asked.push(text) === 0 });
  await openPath("other.json");
  expect(asked).toEqual(["Leave the flow without saving it?"]);
  expect(writeDocument(currentFlow())).toBe(MINE);
});

test("an empty draft changes nothing, and a broken one opens in part", () => {
  stop = startBrowserDraft(storageOf(writeDocument(newFlow())));
  expect(useStudio.getState().history.past).toEqual([]);
  stop();
  stop = startBrowserDraft(storageOf(MINE.slice(0, -3)));
  expect(useStudio.getState().isComplete).toBe(false);
  expect(useStudio.getState().history.past).toEqual([]);
  expect(currentFlow().modules.length).toBe(1);
});

test("opening a file deletes the browser's draft", async () => {
  const storage = storageOf(MINE);
  stop = startBrowserDraft(storage);
  const file = { text: writeDocument(newFlow()), version: "1" };
  stubBackend({ read: async () => file, readDraft: async () => undefined });
  await openPath("other.json");
  expect(storage.getItem(KEY)).toBeNull();
  dispatch("pagehide");
  expect(storage.getItem(KEY)).toBeNull();
  stubBackend({ read: async () => Promise.reject(errorResponse("no such file", 404)) });
  useOpenFile.setState({ path: undefined });
  edit("place", (flow) => place(flow, "scan").flow);
  dispatch("pagehide");
  expect(storage.getItem(KEY)).toContain("scan_1");
});

test("a tab without edits keeps another tab's draft", () => {
  const storage = storageOf(MINE);
  stop = startBrowserDraft(storage);
  storage.setItem(KEY, "another's");
  dispatch("pagehide");
  expect(storage.getItem(KEY)).toBe("another's");
  edit("place", (flow) => place(flow, "filter").flow);
  dispatch("pagehide");
  expect(storage.getItem(KEY)).toContain("filter_1");
});

test("edits of a read-only file are kept in the browser until undone", () => {
  const storage = storageOf();
  stop = startBrowserDraft(storage);
  useServer.setState({ session: { read_only: true } as Session });
  useOpenFile.setState({ path: "other.json" });
  edit("place", (flow) => place(flow, "scan").flow);
  dispatch("pagehide");
  expect(storage.getItem(KEY)).toContain("scan_1");
  undoEdit();
  dispatch("pagehide");
  expect(storage.getItem(KEY)).toBeNull();
});
