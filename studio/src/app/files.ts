// Files of the server: opened, kept as drafts, saved whole. A file that somebody else has changed
// is never overwritten without asking.

import { create } from "zustand";
import type { Flow } from "../document/flow";
import { readPython } from "../document/python/read";
import { writePython } from "../document/python/write";
import { write } from "../document/write";
import { apart } from "./apart";
import { BackendError, type FileText } from "./backend/border";
import { draftText, dropKept, type Kept, keepHere, keptOf, readDraft } from "./beside";
import { note, useRoute } from "./route";
import {
  ask,
  backendNow,
  dismissAll,
  isReadOnly,
  listFiles,
  look,
  notify,
  remodule,
  useServer,
} from "./server";
import { begin, edit, flowNow, isDirty, markSaved, openText, refuse, useStudio } from "./studio";

/** What is open. */
export interface Opened {
  /** Nothing: the flow has no file yet. */
  readonly path: string | undefined;
  /** The file as it was seen last; null if it was not there. */
  readonly version: string | null;
  readonly draft: string | null;
  /** A file that is there, but not as it was seen. */
  readonly conflict: { readonly path: string; readonly theirs: FileText } | undefined;
  /** A script that says its flow only when it is run. */
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

/** The file that this tab had open, though its address said a run. */
export function lastPath(): string | undefined {
  return window.sessionStorage.getItem(LAST) ?? undefined;
}

/** Has the tab remember what it has open; gives what ends that. */
export function rememberPath(): () => void {
  return useOpened.subscribe(({ path }) => {
    if (path === undefined) window.sessionStorage.removeItem(LAST);
    else window.sessionStorage.setItem(LAST, path);
  });
}

/** The other tabs of this browser, which the server takes for the same writer. */
const others = new BroadcastChannel("euphrates.saved");

/** Hears what other tabs save; gives what ends that. */
export function hearOthers(): () => void {
  const hear = ({ data }: MessageEvent<unknown>) => void noticeChange(String(data));
  others.addEventListener("message", hear);
  return () => others.removeEventListener("message", hear);
}

/** A file's name for a flow's name. */
export function slug(name: string): string {
  return name.replace(/[^\p{L}\p{N}._-]+/gu, "_") || "flow";
}

/** Whether what is drawn may go. Its draft stays if it has a file. */
export function mayLeave(): boolean {
  return !isDirty(useStudio.getState()) || window.confirm("Leave the flow without saving it?");
}

/** The file that was asked for last: what was asked for before may come after it. */
let wanted: string | undefined;

/** Whether it may have been changed since it was asked for. */
let isOld = false;

/** Begins with a flow that has no file yet. */
export function beginUnnamed(flow: Flow): void {
  wanted = undefined;
  begin(flow);
  useOpened.setState(NO_FILE);
  dismissAll();
  note({});
}

/** Opens a file, and the draft of it that was left. */
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

/** Whether it could be taken: a script may not tell its flow. */
function take(path: string, { text, version }: FileText): boolean {
  if (isScript(path)) return takeScript(path, text);
  openText(text);
  useOpened.setState({ ...NO_FILE, path, version });
  dismissAll();
  const { run } = useRoute.getState();
  if (run === undefined) note({ file: path });
  return true;
}

/** As a step that can be undone, to what the file says. */
function takeKept(path: string, { text, version }: Kept, file: FileText): void {
  const draft = readDraft(text);
  // A script has no draft beside it once its flow is drawn: that has no file, and is kept as such.
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

/** Reads a script; only if that does not tell its flow, asks whether to run it. */
function takeScript(path: string, text: string): boolean {
  const { flow, problems } = readPython(text, useStudio.getState().specs);
  const isTold = flow !== undefined && problems.length === 0;
  if (isTold) takeFlow(path, flow);
  else useOpened.setState({ untold: path });
  return isTold;
}

/**
 * A script's flow gets a file of its own when it is saved: a document has no place for comments.
 */
function takeFlow(path: string, flow: Flow): void {
  beginUnnamed(flow);
  notify({ text: `The flow of ${apart(path)}. Saving makes a document of it; the script stays.` });
}

/** Has the server run a script, for its flow. */
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

/** Saves the flow where it is from; nowhere yet is told. */
export async function saveOpened(): Promise<"saved" | "nowhere" | "failed"> {
  const { path, version } = useOpened.getState();
  const { isWhole } = useStudio.getState();
  if (path === undefined || !isWhole) return "nowhere";
  return (await saveTo(path, version)) ? "saved" : "failed";
}

/** Saves the flow under a path, if what is there is what was seen there. */
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
      // It is gone: the next time it is made anew.
      useOpened.setState({ version: null });
      throw error;
    }
    markSaved(flow);
    dismissAll();
    others.postMessage(path);
    if (useRoute.getState().run === undefined) note({ file: path });
    // It is saved, whatever comes of these.
    void look(async () => {
      // Where it is from, if it is elsewhere now: there it would be taken up over what others made.
      if (from !== undefined && draft !== null) await dropKept(from);
      await listFiles();
    });
  });
}

/** Answers a conflict. */
export async function settleConflict(answer: "mine" | "theirs" | "neither"): Promise<void> {
  const { conflict } = useOpened.getState();
  useOpened.setState({ conflict: undefined });
  if (conflict === undefined || answer === "neither") return;
  const { path, theirs } = conflict;
  if (answer === "mine") await saveTo(path, theirs.version);
  else takeTheirs(path, theirs);
}

/**
 * What is drawn goes, and the draft of it; a flow that is of another file is asked about. Gives
 * whether theirs could be taken.
 */
function takeTheirs(path: string, theirs: FileText): boolean {
  const { path: mine, draft } = useOpened.getState();
  if (path !== mine && !mayLeave()) return false;
  const isTaken = take(path, theirs);
  if (isTaken && path === mine && draft !== null) void look(() => dropKept(path));
  return isTaken;
}

/** Looks whether the open file was changed while nobody could say so, and the one to be opened. */
export function lookAgain(): void {
  const { path } = useOpened.getState();
  for (const one of new Set([path, wanted])) if (one !== undefined) void noticeChange(one);
}

/** Somebody else has changed a file: it is taken up, unless that would cost an edit. */
export async function noticeChange(path: string): Promise<void> {
  const { path: mine, version } = useOpened.getState();
  if (path === wanted) isOld = true;
  if (path !== mine) return;
  let theirs: FileText;
  try {
    theirs = await backendNow().read(path);
  } catch (error) {
    // Else nobody knows; it is looked at again when the server is back.
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

/** Long enough that nobody who types waits for it. */
const PAUSE_MS = 400;

/** Keeps what is not saved beside its file; gives what ends that. */
export function keepDrafts(): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const stopKeeping = useStudio.subscribe((now, before) => {
    if (now.history.now === before.history.now) return;
    clearTimeout(timer);
    timer = setTimeout(keepDraft, PAUSE_MS);
  });
  // What was drawn while there was no server.
  const stopLooking = useServer.subscribe(({ link }, before) => {
    if (link === "up" && before.link !== "up") keepDraft();
  });
  const leave = () => {
    clearTimeout(timer);
    keepDraft();
  };
  window.addEventListener("pagehide", leave);
  return () => {
    stopKeeping();
    stopLooking();
    clearTimeout(timer);
    window.removeEventListener("pagehide", leave);
  };
}

/** The draft that is on its way: the next one is to follow that, and not to meet it. */
let keeping: Promise<void> = Promise.resolve();

function keepDraft(): void {
  const { path, version } = useOpened.getState();
  const server = useServer.getState();
  if (path === undefined || isReadOnly(server)) return;
  const isDrawn = isDirty(useStudio.getState());
  const draft = isDrawn ? { flow: flowNow(), base: version } : undefined;
  if (server.link !== "up") keepHere(path, draft);
  else keeping = keeping.then(keepBeside, keepBeside);
}

async function keepBeside(): Promise<void> {
  const { path, version: base, draft } = useOpened.getState();
  if (path === undefined) return;
  const isKept = isDirty(useStudio.getState());
  try {
    if (isKept) {
      const text = draftText({ flow: flowNow(), base });
      const version = await backendNow().saveDraft(path, text, draft);
      if (useOpened.getState().path === path) useOpened.setState({ draft: version });
    } else if (draft !== null) {
      useOpened.setState({ draft: null });
      await backendNow().dropDraft(path);
    }
    keepHere(path, undefined);
  } catch (error) {
    if (!(error instanceof BackendError)) throw error;
    const { status, theirs } = error;
    if (status === 409 && theirs === undefined) useOpened.setState({ draft: null });
    if (theirs === undefined) return;
    const act = () => useOpened.setState({ draft: theirs.version });
    const text = "Another window keeps a draft of this file, too. This one is not kept.";
    notify({ text, answers: [{ label: "Keep this one", act }] });
  }
}
