// Saves unsaved edits of the open file as its draft: on the server, or in the browser while the
// server is away.

import { BackendError } from "../backend/api";
import { backendNow, isReadOnly, notify, useServer } from "../state/serverStore";
import { flowNow, isDirty, useStudio } from "../state/studioStore";
import { draftText, keepHere } from "./draftStore";
import { useOpened } from "./openFile";

/** Debounce of draft saves, long enough not to interrupt typing. */
const PAUSE_MS = 400;

/** Saves unsaved edits as the file's draft; returns the function that stops it. */
export function keepDrafts(): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const stopKeeping = useStudio.subscribe((now, before) => {
    if (now.history.now === before.history.now) return;
    clearTimeout(timer);
    timer = setTimeout(keepDraft, PAUSE_MS);
  });
  // Catches up on edits made without the server.
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

/** The save in flight; saves are chained, since each must name the version before it. */
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
