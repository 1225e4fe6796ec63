// The open file: opening, saving, and conflicts with other writers. A file that somebody else has
// changed is never overwritten without asking.

import { create } from "zustand";
import type { Flow } from "../../document/flow";
import { readPython } from "../../document/python/readPython";
import { writePython } from "../../document/python/writePython";
import { write } from "../../document/writeDocument";
import { BackendError, type FileText } from "../backend/api";
import { note, useRoute } from "../state/routeStore";
import {
  ask,
  backendNow,
  dismissAll,
  listFiles,
  look,
  notify,
  remodule,
} from "../state/serverStore";
import {
  begin,
  edit,
  flowNow,
  isDirty,
  markSaved,
  openText,
  refuse,
  useStudio,
} from "../state/studioStore";
import { apart } from "../ui/isolateBidi";
import { dropKept, type Kept, keptOf, readDraft } from "./draftStore";

/** The file that the flow belongs to. */
export interface Opened {
  /** Undefined while the flow has no file. */
  readonly path: string | undefined;
  /** Version of the file when last read; null if it did not exist. */
  readonly version: string | null;
  /** Version of the file's draft on the server; null if there is none. */
  readonly draft: string | null;
  /** A file whose version is not the one expected when saving. */
  readonly conflict: { readonly path: string; readonly theirs: FileText } | undefined;
  /** A script that must run to give its flow, and awaits consent. */
  readonly untold: string | undefined;
}

const NO_FILE: Opened = {
  path: undefined,
  version: null,
  draft: null,
  conflict: undefined,
  untold: undefined,
};

export const useOpened = create<Opened>(() => NO_FILE);

export function isScript(path: string): boolean {
  return path.endsWith(".py");
}

const LAST = "euphrates.path";

/** The file that this tab had open before a reload, even if its URL names a run. */
export function lastPath(): string | undefined {
  return window.sessionStorage.getItem(LAST) ?? undefined;
}

/** Remembers the open path per tab; returns the function that stops it. */
export function rememberPath(): () => void {
  return useOpened.subscribe(({ path }) => {
    if (path === undefined) window.sessionStorage.removeItem(LAST);
    else window.sessionStorage.setItem(LAST, path);
  });
}

/** Announces saves to this browser's other tabs, which the server takes for the same writer. */
const others = new BroadcastChannel("euphrates.saved");

/** Handles saves of other tabs; returns the function that stops it. */
export function hearOthers(): () => void {
  const hear = ({ data }: MessageEvent<unknown>) => void noticeChange(String(data));
  others.addEventListener("message", hear);
  return () => others.removeEventListener("message", hear);
}

/** A file name for a flow's name. */
export function slug(name: string): string {
  return name.replace(/[^\p{L}\p{N}._-]+/gu, "_") || "flow";
}

/** Asks before an unsaved flow is left; the draft of a file stays. */
export function mayLeave(): boolean {
  return !isDirty(useStudio.getState()) || window.confirm("Leave the flow without saving it?");
}

/** The path requested last: responses to earlier requests may arrive later. */
let wanted: string | undefined;

/** Whether the requested file may have changed since the request. */
let isOld = false;

/** Loads a flow that has no file yet. */
export function beginUnnamed(flow: Flow): void {
  wanted = undefined;
  begin(flow);
  useOpened.setState(NO_FILE);
  dismissAll();
  note({});
}

/** Opens a file and restores its draft. */
export async function openPath(path: string): Promise<void> {
  if (path === useOpened.getState().path || !mayLeave()) return;
  const left = flowNow();
  wanted = path;
  isOld = false;
  await ask(async (backend) => {
    const [file, kept] = await Promise.all([backend.read(path), keptOf(path)]);
    if (wanted !== path || (flowNow() !== left && !mayLeave())) return;
    if (take(path, file) && kept !== undefined) takeKept(path, kept, file);
    if (isOld) await noticeChange(path);
  });
}

/** Shows a file's contents; returns false for a script that must run to give its flow. */
function take(path: string, { text, version }: FileText): boolean {
  if (isScript(path)) return takeScript(path, text);
  openText(text);
  useOpened.setState({ ...NO_FILE, path, version });
  dismissAll();
  const { run } = useRoute.getState();
  if (run === undefined) note({ file: path });
  return true;
}

/** Restores a draft as one undo step on top of the file's flow. */
function takeKept(path: string, { text, version }: Kept, file: FileText): void {
  const draft = readDraft(text);
  // A script's flow has no file of its own: the script's draft is taken over and deleted.
  const isBound = useOpened.getState().path === path;
  if (isBound) useOpened.setState({ draft: version });
  else void look(() => dropKept(path));
  if (draft === undefined) {
    notify({ text: "What was kept of it last time cannot be read." });
    return;
  }
  if (write(draft.flow) === write(flowNow())) return;
  edit("take up the draft", () => draft.flow);
  const isOfFile = draft.base === file.version;
  const told = "What was not saved last time is here again; undo leads back to the file.";
  const asks = " The file was changed since: saving will ask which is to stay.";
  notify({ text: isOfFile || !isBound ? told : told + asks });
  if (isBound) useOpened.setState({ version: draft.base });
}

/** Reads a script's flow without running it; if that fails, asks for consent to run it. */
function takeScript(path: string, text: string): boolean {
  const { flow, problems } = readPython(text, useStudio.getState().specs);
  const isTold = flow !== undefined && problems.length === 0;
  if (isTold) takeFlow(path, flow);
  else useOpened.setState({ untold: path });
  return isTold;
}

/** Loads a script's flow without a file: saving over the script would lose its comments. */
function takeFlow(path: string, flow: Flow): void {
  beginUnnamed(flow);
  notify({ text: `The flow of ${apart(path)}. Saving makes a document of it; the script stays.` });
}

/** Has the server run a script and loads its flow. */
export async function runScript(path: string): Promise<void> {
  useOpened.setState({ untold: undefined });
  await ask(async (backend) => {
    const flow = await backend.script(path, true);
    await remodule();
    if (flow === undefined)
      refuse({ message: `${apart(path)} may not be run`, remedy: "trust it first" });
    else if (flow === null)
      notify({ text: `${apart(path)} builds no flow; its modules are under Yours.` });
    else takeFlow(path, flow);
  });
}

/** Saves the flow to its file; `nowhere` if it has none, or was read in part only. */
export async function saveOpened(): Promise<"saved" | "nowhere" | "failed"> {
  const { path, version } = useOpened.getState();
  const { isWhole } = useStudio.getState();
  if (path === undefined || !isWhole) return "nowhere";
  return (await saveTo(path, version)) ? "saved" : "failed";
}

/** Saves the flow under a path if that still has `version` (null: does not exist). */
export async function saveTo(path: string, version: string | null): Promise<boolean> {
  const flow = flowNow();
  const { specs } = useStudio.getState();
  const { path: from, draft } = useOpened.getState();
  const text = `${isScript(path) ? writePython(flow, specs) : write(flow)}\n`;
  return ask(async (backend) => {
    try {
      const saved = await backend.save(path, text, version);
      useOpened.setState({ ...NO_FILE, path, version: saved });
    } catch (error) {
      if (!(error instanceof BackendError) || error.status !== 409) throw error;
      const { theirs } = error;
      if (theirs !== undefined) {
        useOpened.setState({ conflict: { path, theirs } });
        return;
      }
      // The file is gone: the next save creates it.
      useOpened.setState({ version: null });
      throw error;
    }
    markSaved(flow);
    dismissAll();
    others.postMessage(path);
    if (useRoute.getState().run === undefined) note({ file: path });
    // Failures of these do not undo the save.
    void look(async () => {
      // Also if saved under another path: the old path's draft would be restored over its file.
      if (from !== undefined && draft !== null) await dropKept(from);
      await listFiles();
    });
  });
}

/** Resolves a conflict: overwrites the file, loads it, or does neither. */
export async function settleConflict(answer: "mine" | "theirs" | "neither"): Promise<void> {
  const { conflict } = useOpened.getState();
  useOpened.setState({ conflict: undefined });
  if (conflict === undefined || answer === "neither") return;
  const { path, theirs } = conflict;
  if (answer === "mine") await saveTo(path, theirs.version);
  else takeTheirs(path, theirs);
}

/**
 * Replaces the flow, and deletes its draft, by another writer's file; asks first if the flow
 * belongs to another file. Returns whether it was replaced.
 */
function takeTheirs(path: string, theirs: FileText): boolean {
  const { path: mine, draft } = useOpened.getState();
  if (path !== mine && !mayLeave()) return false;
  const isTaken = take(path, theirs);
  if (isTaken && path === mine && draft !== null) void look(() => dropKept(path));
  return isTaken;
}

/** Checks the open and the requested file for changes, after a reconnect. */
export function lookAgain(): void {
  const { path } = useOpened.getState();
  for (const one of new Set([path, wanted])) if (one !== undefined) void noticeChange(one);
}

/** Reloads a file that another writer has changed, unless there are unsaved edits. */
export async function noticeChange(path: string): Promise<void> {
  const { path: mine, version } = useOpened.getState();
  if (path === wanted) isOld = true;
  if (path !== mine) return;
  let theirs: FileText;
  try {
    theirs = await backendNow().read(path);
  } catch (error) {
    // Other errors: checked again on reconnect.
    if (!(error instanceof BackendError) || error.status !== 404) return;
    notify({ text: `${apart(path)} is not there any more. Saving puts it there again.` });
    useOpened.setState({ version: null });
    return;
  }
  const opened = useOpened.getState();
  if (opened.path !== path || opened.version !== version || theirs.version === version) return;
  if (!isDirty(useStudio.getState())) {
    const text = `${apart(path)} was changed by another; this is it now.`;
    if (takeTheirs(path, theirs)) notify({ text });
    return;
  }
  const answers = [{ label: "Open theirs", act: () => takeTheirs(path, theirs) }];
  notify({
    text: `${apart(path)} was changed by another. Saving will ask which is to stay.`,
    answers,
  });
}
