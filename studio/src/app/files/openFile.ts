// The open file: opening, saving, and conflicts with other writers. A file that another program has
// changed is never overwritten without asking.

import { create } from "zustand";
import type { Flow } from "../../document/flow";
import { readPython } from "../../document/python/readPython";
import { writePython } from "../../document/python/writePython";
import { writeDocument } from "../../document/writeDocument";
import { BackendError, type FileText } from "../backend/api";
import { replaceRoute, useRoute } from "../state/routeStore";
import {
  addNotice,
  clearNotices,
  pageRequest,
  refreshFiles,
  refreshSpecs,
  requireBackend,
  userRequest,
} from "../state/serverStore";
import {
  currentFlow,
  edit,
  isDirty,
  loadDocument,
  loadFlow,
  markSaved,
  setRefusal,
  useStudio,
} from "../state/studioStore";
import { isolateBidi } from "../ui/isolateBidi";
import { deleteDraft, loadDraft, parseDraft, type StoredDraft } from "./draftStore";

/** The file that the flow belongs to. */
export interface OpenFile {
  /** Undefined while the flow has no file. */
  readonly path: string | undefined;
  /** Version of the file when last read; null if it did not exist. */
  readonly version: string | null;
  /** Version of the file's draft on the server; null if there is none. */
  readonly draft: string | null;
  /** A file whose version is not the one expected when saving. */
  readonly conflict: { readonly path: string; readonly theirs: FileText } | undefined;
  /** A script that must run to give its flow, and awaits consent. */
  readonly scriptToRun: string | undefined;
}

const NO_FILE: OpenFile = {
  path: undefined,
  version: null,
  draft: null,
  conflict: undefined,
  scriptToRun: undefined,
};

export const useOpenFile = create<OpenFile>(() => NO_FILE);

export function isScript(path: string): boolean {
  return path.endsWith(".py");
}

const LAST_PATH_KEY = "euphrates.path";

/** The file that this tab had open before a reload, even if its URL names a run. */
export function lastPath(): string | undefined {
  return window.sessionStorage.getItem(LAST_PATH_KEY) ?? undefined;
}

/** Remembers the open path per tab; returns the function that stops it. */
export function persistLastPath(): () => void {
  return useOpenFile.subscribe(({ path }) => {
    if (path === undefined) window.sessionStorage.removeItem(LAST_PATH_KEY);
    else window.sessionStorage.setItem(LAST_PATH_KEY, path);
  });
}

/** Announces saves to this browser's other tabs, which the server takes for the same writer. */
const savedChannel = new BroadcastChannel("euphrates.saved");

/** Handles saves of other tabs; returns the function that stops it. */
export function followOtherTabs(): () => void {
  const onMessage = ({ data }: MessageEvent<unknown>) => void handleFileChange(String(data));
  savedChannel.addEventListener("message", onMessage);
  return () => savedChannel.removeEventListener("message", onMessage);
}

/** A file name for a flow's name. */
export function slug(name: string): string {
  return name.replace(/[^\p{L}\p{N}._-]+/gu, "_") || "flow";
}

/** Asks before an unsaved flow is left; the draft of a file stays. */
export function confirmLeave(): boolean {
  return !isDirty(useStudio.getState()) || window.confirm("Leave the flow without saving it?");
}

/** The path requested last: responses to earlier requests may arrive later. */
let requestedPath: string | undefined;

/** Whether the requested file may have changed since the request. */
let isStale = false;

/** Loads a flow that has no file yet. */
export function loadUnsavedFlow(flow: Flow): void {
  requestedPath = undefined;
  loadFlow(flow);
  useOpenFile.setState(NO_FILE);
  clearNotices();
  replaceRoute({});
}

/** Opens a file and restores its draft. */
export async function openPath(path: string): Promise<void> {
  if (path === useOpenFile.getState().path || !confirmLeave()) return;
  const previous = currentFlow();
  requestedPath = path;
  isStale = false;
  await userRequest(async (backend) => {
    const [file, stored] = await Promise.all([backend.read(path), loadDraft(path)]);
    if (requestedPath !== path || (currentFlow() !== previous && !confirmLeave())) return;
    if (showFile(path, file) && stored !== undefined) restoreDraft(path, stored, file);
    if (isStale) await handleFileChange(path);
  });
}

/** Shows a file's contents; returns false for a script that must run to give its flow. */
function showFile(path: string, { text, version }: FileText): boolean {
  if (isScript(path)) return readScript(path, text);
  loadDocument(text);
  useOpenFile.setState({ ...NO_FILE, path, version });
  clearNotices();
  const { run } = useRoute.getState();
  if (run === undefined) replaceRoute({ file: path });
  return true;
}

/** Restores a draft as one undo step on top of the file's flow. */
function restoreDraft(path: string, { text, version }: StoredDraft, file: FileText): void {
  const draft = parseDraft(text);
  // A script's flow has no file of its own: the script's draft is taken over and deleted.
  const isBound = useOpenFile.getState().path === path;
  if (isBound) useOpenFile.setState({ draft: version });
  else void pageRequest(() => deleteDraft(path));
  if (draft === undefined) {
    addNotice({ text: "Its unsaved changes cannot be read." });
    return;
  }
  if (writeDocument(draft.flow) === writeDocument(currentFlow())) return;
  edit("take up the draft", () => draft.flow);
  const isOfFile = draft.base === file.version;
  const restored = "Unsaved changes were restored; undo returns to the file.";
  const willAsk = " The file was changed since: saving will ask which is to stay.";
  addNotice({ text: isOfFile || !isBound ? restored : restored + willAsk });
  if (isBound) useOpenFile.setState({ version: draft.base });
}

/** Reads a script's flow without running it; if that fails, asks for consent to run it. */
function readScript(path: string, text: string): boolean {
  const { flow, problems } = readPython(text, useStudio.getState().specs);
  const isReadable = flow !== undefined && problems.length === 0;
  if (isReadable) loadScriptFlow(path, flow);
  else useOpenFile.setState({ scriptToRun: path });
  return isReadable;
}

/** Loads a script's flow without a file: saving over the script would lose its comments. */
function loadScriptFlow(path: string, flow: Flow): void {
  loadUnsavedFlow(flow);
  addNotice({
    text: `The flow of ${isolateBidi(path)}. Saving makes a document of it; the script stays.`,
  });
}

/** Has the server run a script and loads its flow. */
export async function runScript(path: string): Promise<void> {
  useOpenFile.setState({ scriptToRun: undefined });
  await userRequest(async (backend) => {
    const flow = await backend.script(path, true);
    await refreshSpecs();
    if (flow === undefined)
      setRefusal({ message: `${isolateBidi(path)} may not be run`, remedy: "trust it first" });
    else if (flow === null)
      addNotice({ text: `${isolateBidi(path)} builds no flow; its modules are under Yours.` });
    else loadScriptFlow(path, flow);
  });
}

/** Saves the flow to its file; `nowhere` if it has none, or was read in part only. */
export async function saveToOpenFile(): Promise<"saved" | "nowhere" | "failed"> {
  const { path, version } = useOpenFile.getState();
  const { isComplete } = useStudio.getState();
  if (path === undefined || !isComplete) return "nowhere";
  return (await saveTo(path, version)) ? "saved" : "failed";
}

/** Saves the flow under a path if that still has `version` (null: does not exist). */
export async function saveTo(path: string, version: string | null): Promise<boolean> {
  const flow = currentFlow();
  const { specs } = useStudio.getState();
  const { path: from, draft } = useOpenFile.getState();
  const text = `${isScript(path) ? writePython(flow, specs) : writeDocument(flow)}\n`;
  return userRequest(async (backend) => {
    try {
      const saved = await backend.save(path, text, version);
      useOpenFile.setState({ ...NO_FILE, path, version: saved });
    } catch (error) {
      if (!(error instanceof BackendError) || error.status !== 409) throw error;
      const { theirs } = error;
      if (theirs !== undefined) {
        useOpenFile.setState({ conflict: { path, theirs } });
        return;
      }
      // The file is gone: the next save creates it.
      useOpenFile.setState({ version: null });
      throw error;
    }
    markSaved(flow);
    clearNotices();
    savedChannel.postMessage(path);
    if (useRoute.getState().run === undefined) replaceRoute({ file: path });
    // Failures of these do not undo the save.
    void pageRequest(async () => {
      // Also if saved under another path: the old path's draft would be restored over its file.
      if (from !== undefined && draft !== null) await deleteDraft(from);
      await refreshFiles();
    });
  });
}

/** Resolves a conflict: overwrites the file, loads it, or does neither. */
export async function resolveConflict(answer: "mine" | "theirs" | "neither"): Promise<void> {
  const { conflict } = useOpenFile.getState();
  useOpenFile.setState({ conflict: undefined });
  if (conflict === undefined || answer === "neither") return;
  const { path, theirs } = conflict;
  if (answer === "mine") await saveTo(path, theirs.version);
  else loadTheirs(path, theirs);
}

/**
 * Replaces the flow, and deletes its draft, by another writer's file; asks first if the flow
 * belongs to another file. Returns whether it was replaced.
 */
function loadTheirs(path: string, theirs: FileText): boolean {
  const { path: mine, draft } = useOpenFile.getState();
  if (path !== mine && !confirmLeave()) return false;
  const isTaken = showFile(path, theirs);
  if (isTaken && path === mine && draft !== null) void pageRequest(() => deleteDraft(path));
  return isTaken;
}

/** Checks the open and the requested file for changes, after a reconnect. */
export function recheckFiles(): void {
  const { path } = useOpenFile.getState();
  for (const one of new Set([path, requestedPath]))
    if (one !== undefined) void handleFileChange(one);
}

/** Reloads a file that another writer has changed, unless there are unsaved edits. */
export async function handleFileChange(path: string): Promise<void> {
  const { path: mine, version } = useOpenFile.getState();
  if (path === requestedPath) isStale = true;
  if (path !== mine) return;
  let theirs: FileText;
  try {
    theirs = await requireBackend().read(path);
  } catch (error) {
    // Other errors: checked again on reconnect.
    if (!(error instanceof BackendError) || error.status !== 404) return;
    addNotice({ text: `${isolateBidi(path)} is not there any more. Saving puts it there again.` });
    useOpenFile.setState({ version: null });
    return;
  }
  const opened = useOpenFile.getState();
  if (opened.path !== path || opened.version !== version || theirs.version === version) return;
  if (!isDirty(useStudio.getState())) {
    const text = `${isolateBidi(path)} was changed by another; this is it now.`;
    if (loadTheirs(path, theirs)) addNotice({ text });
    return;
  }
  const actions = [{ label: "Open theirs", act: () => loadTheirs(path, theirs) }];
  addNotice({
    text: `${isolateBidi(path)} was changed by another. Saving will ask which is to stay.`,
    actions,
  });
}
