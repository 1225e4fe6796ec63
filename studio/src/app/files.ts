// Files of the server: opened, kept as drafts, saved whole. A file that somebody else has changed
// is never overwritten without asking.

import { create } from "zustand";
import type { Flow } from "../document/flow";
import { open } from "../document/open";
import { readPython } from "../document/python/read";
import { writePython } from "../document/python/write";
import { write } from "../document/write";
import { apart } from "./apart";
import { BackendError, type FileText } from "./backend/border";
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

/** Begins with a flow that has no file yet. */
export function beginUnnamed(flow: Flow): void {
  begin(flow);
  useOpened.setState(NO_FILE);
  dismissAll();
  note({});
}

/** Opens a file, and the draft of it that was left. */
export async function openPath(path: string): Promise<void> {
  if (path === useOpened.getState().path || !mayLeave()) return;
  await ask(async (backend) => {
    const file = await backend.read(path);
    if (isScript(path)) return takeScript(path, file);
    take(path, file);
    const draft = isReadOnly(useServer.getState()) ? undefined : await backend.readDraft(path);
    if (draft !== undefined && draft.text.trimEnd() !== file.text.trimEnd()) takeDraft(draft);
  });
}

function take(path: string, { text, version }: FileText): void {
  openText(text);
  useOpened.setState({ ...NO_FILE, path, version });
  dismissAll();
  const { run } = useRoute.getState();
  if (run === undefined) note({ file: path });
}

/** As a step that can be undone, to what the file says. */
function takeDraft({ text, version }: FileText): void {
  const { flow, isWhole } = open(text);
  if (!isWhole) return;
  useOpened.setState({ draft: version });
  edit("take up the draft", () => flow);
  notify({ text: "What was not saved last time is here again; undo leads back to the file." });
}

/** Reads a script; only if that does not tell its flow, asks whether to run it. */
function takeScript(path: string, { text }: FileText): void {
  const { flow, problems } = readPython(text, useStudio.getState().specs);
  if (flow !== undefined && problems.length === 0) takeFlow(path, flow);
  else useOpened.setState({ untold: path });
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
  const { draft } = useOpened.getState();
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
      if (draft !== null) await backend.dropDraft(path);
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
  else take(path, theirs);
}

/** Somebody else has changed a file: it is taken up, unless that would cost an edit. */
export async function noticeChange(path: string): Promise<void> {
  const { path: mine, version } = useOpened.getState();
  if (path !== mine) return;
  let theirs: FileText;
  try {
    theirs = await backendNow().read(path);
  } catch {
    notify({ text: `${apart(path)} is not there any more. Saving puts it there again.` });
    useOpened.setState({ version: null });
    return;
  }
  const opened = useOpened.getState();
  if (opened.path !== path || opened.version !== version || theirs.version === version) return;
  if (!isDirty(useStudio.getState())) {
    take(path, theirs);
    notify({ text: `${apart(path)} was changed by another; this is it now.` });
    return;
  }
  const answers = [{ label: "Open theirs", act: () => take(path, theirs) }];
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
  const stop = useStudio.subscribe((now, before) => {
    if (now.history.now === before.history.now) return;
    clearTimeout(timer);
    timer = setTimeout(() => void keepDraft(), PAUSE_MS);
  });
  const leave = () => {
    clearTimeout(timer);
    void keepDraft();
  };
  window.addEventListener("pagehide", leave);
  return () => {
    stop();
    clearTimeout(timer);
    window.removeEventListener("pagehide", leave);
  };
}

async function keepDraft(): Promise<void> {
  const { path, draft } = useOpened.getState();
  const server = useServer.getState();
  if (path === undefined || server.link !== "up" || isReadOnly(server)) return;
  const isKept = isDirty(useStudio.getState());
  if (!isKept && draft === null) return;
  try {
    if (!isKept) {
      useOpened.setState({ draft: null });
      return await backendNow().dropDraft(path);
    }
    const version = await backendNow().saveDraft(path, write(flowNow()), draft);
    if (useOpened.getState().path === path) useOpened.setState({ draft: version });
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
