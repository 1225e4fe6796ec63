// The localStorage draft of a flow without a file.

import { afterEach, beforeEach, expect, test } from "vitest";
import type { Session } from "../src/app/backend/api";
import { keepDraft } from "../src/app/files/browserDraft";
import { openPath, useOpened } from "../src/app/files/openFile";
import { useServer } from "../src/app/state/serverStore";
import { back, begin, edit, flowNow, isDirty, useStudio } from "../src/app/state/studioStore";
import { place } from "../src/document/edits";
import { newFlow } from "../src/document/flow";
import { write } from "../src/document/writeDocument";
import { no, storageOf as storeOf, withBackend, withWindow } from "./stubs";

const KEY = "euphrates.draft";
const MINE = write(place(newFlow(), "scan").flow);

let tell: (event: string) => void;
let stop = () => {};

beforeEach(() => {
  tell = withWindow();
  begin(newFlow());
  useOpened.setState({ path: undefined, version: null, draft: null });
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
  stop = keepDraft(storageOf(MINE));
  expect(write(flowNow())).toBe(MINE);
  expect(isDirty(useStudio.getState())).toBe(true);
  back();
  expect(write(flowNow())).toBe(write(newFlow()));
  expect(isDirty(useStudio.getState())).toBe(false);
});

test("opening a file over a restored draft asks first", async () => {
  const asked: string[] = [];
  stop = keepDraft(storageOf(MINE));
  Object.assign(window, { confirm: (text: string) => asked.push(text) === 0 });
  await openPath("other.json");
  expect(asked).toEqual(["Leave the flow without saving it?"]);
  expect(write(flowNow())).toBe(MINE);
});

test("an empty draft changes nothing, and a broken one opens in part", () => {
  stop = keepDraft(storageOf(write(newFlow())));
  expect(useStudio.getState().history.past).toEqual([]);
  stop();
  stop = keepDraft(storageOf(MINE.slice(0, -3)));
  expect(useStudio.getState().isWhole).toBe(false);
  expect(useStudio.getState().history.past).toEqual([]);
  expect(flowNow().modules.length).toBe(1);
});

test("opening a file deletes the browser's draft", async () => {
  const storage = storageOf(MINE);
  stop = keepDraft(storage);
  const file = { text: write(newFlow()), version: "1" };
  withBackend({ read: async () => file, readDraft: async () => undefined });
  await openPath("other.json");
  expect(storage.getItem(KEY)).toBeNull();
  tell("pagehide");
  expect(storage.getItem(KEY)).toBeNull();
  withBackend({ read: async () => Promise.reject(no("no such file", 404)) });
  useOpened.setState({ path: undefined });
  edit("place", (flow) => place(flow, "scan").flow);
  tell("pagehide");
  expect(storage.getItem(KEY)).toContain("scan_1");
});

test("a tab without edits keeps another tab's draft", () => {
  const storage = storageOf(MINE);
  stop = keepDraft(storage);
  storage.setItem(KEY, "another's");
  tell("pagehide");
  expect(storage.getItem(KEY)).toBe("another's");
  edit("place", (flow) => place(flow, "filter").flow);
  tell("pagehide");
  expect(storage.getItem(KEY)).toContain("filter_1");
});

test("edits of a read-only file are kept in the browser until undone", () => {
  const storage = storageOf();
  stop = keepDraft(storage);
  useServer.setState({ session: { read_only: true } as Session });
  useOpened.setState({ path: "other.json" });
  edit("place", (flow) => place(flow, "scan").flow);
  tell("pagehide");
  expect(storage.getItem(KEY)).toContain("scan_1");
  back();
  tell("pagehide");
  expect(storage.getItem(KEY)).toBeNull();
});
