// What the browser keeps of a flow that has no file.

import { afterEach, beforeEach, expect, test } from "vitest";
import type { Session } from "../src/app/backend/border";
import { keepDraft } from "../src/app/draft";
import { openPath, useOpened } from "../src/app/files";
import { useServer } from "../src/app/server";
import { back, begin, edit, flowNow, isDirty, useStudio } from "../src/app/studio";
import { place } from "../src/document/edits";
import { newFlow } from "../src/document/flow";
import { write } from "../src/document/write";
import { no, storageOf as storeOf, withBackend, withWindow } from "./page";

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

/** What a browser has stored. */
function storageOf(draft?: string): Storage {
  return storeOf(draft === undefined ? [] : [[KEY, draft]]);
}

test("a draft is not taken for saved, and undo leads to the empty flow", () => {
  stop = keepDraft(storageOf(MINE));
  expect(write(flowNow())).toBe(MINE);
  expect(isDirty(useStudio.getState())).toBe(true);
  back();
  expect(write(flowNow())).toBe(write(newFlow()));
  expect(isDirty(useStudio.getState())).toBe(false);
});

test("no file is opened over a draft without asking", async () => {
  const asked: string[] = [];
  stop = keepDraft(storageOf(MINE));
  Object.assign(window, { confirm: (text: string) => asked.push(text) === 0 });
  await openPath("other.json");
  expect(asked).toEqual(["Leave the flow without saving it?"]);
  expect(write(flowNow())).toBe(MINE);
});

test("an empty draft changes nothing, and a broken one is opened as far as it can be", () => {
  stop = keepDraft(storageOf(write(newFlow())));
  expect(useStudio.getState().history.past).toEqual([]);
  stop();
  stop = keepDraft(storageOf(MINE.slice(0, -3)));
  expect(useStudio.getState().isWhole).toBe(false);
  expect(useStudio.getState().history.past).toEqual([]);
  expect(flowNow().modules.length).toBe(1);
});

test("a draft goes when the flow has a file, and does not come again", async () => {
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

test("a tab that has drawn nothing leaves what another one has kept", () => {
  const storage = storageOf(MINE);
  stop = keepDraft(storage);
  storage.setItem(KEY, "another's");
  tell("pagehide");
  expect(storage.getItem(KEY)).toBe("another's");
  edit("place", (flow) => place(flow, "filter").flow);
  tell("pagehide");
  expect(storage.getItem(KEY)).toContain("filter_1");
});

test("what may not be written is kept in the browser while it is not as in its file", () => {
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
