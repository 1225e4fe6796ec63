// Saves unsaved edits of the open file as its draft: on the server, or in the browser while the
// server is away.

import { BackendError } from "../backend/api";
import { addNotice, isReadOnly, requireBackend, useServer } from "../state/serverStore";
import { currentFlow, isDirty, useStudio } from "../state/studioStore";
import { serializeDraft, storeInBrowser } from "./draftStore";
import { useOpenFile } from "./openFile";

/** Debounce of draft saves, long enough not to interrupt typing. */
const DEBOUNCE_MS = 400;

/** Saves unsaved edits as the file's draft; returns the function that stops it. */
export function startDraftAutosave(): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const stopSaving = useStudio.subscribe((now, before) => {
    if (now.history.now === before.history.now) return;
    clearTimeout(timer);
    timer = setTimeout(saveDraft, DEBOUNCE_MS);
  });
  // Catches up on edits made without the server.
  const stopCatchingUp = useServer.subscribe(({ link }, before) => {
    if (link === "up" && before.link !== "up") saveDraft();
  });
  const flush = () => {
    clearTimeout(timer);
    saveDraft();
  };
  window.addEventListener("pagehide", flush);
  return () => {
    stopSaving();
    stopCatchingUp();
    clearTimeout(timer);
    window.removeEventListener("pagehide", flush);
  };
}

/** The save in flight; saves are chained, since each must name the version before it. */
let pendingSave: Promise<void> = Promise.resolve();

function saveDraft(): void {
  const { path, version } = useOpenFile.getState();
  const server = useServer.getState();
  if (path === undefined || isReadOnly(server)) return;
  const isUnsaved = isDirty(useStudio.getState());
  const draft = isUnsaved ? { flow: currentFlow(), base: version } : undefined;
  if (server.link !== "up") storeInBrowser(path, draft);
  else pendingSave = pendingSave.then(saveDraftToServer, saveDraftToServer);
}

async function saveDraftToServer(): Promise<void> {
  const { path, version: base, draft } = useOpenFile.getState();
  if (path === undefined) return;
  const isUnsaved = isDirty(useStudio.getState());
  try {
    if (isUnsaved) {
      const text = serializeDraft({ flow: currentFlow(), base });
      const version = await requireBackend().saveDraft(path, text, draft);
      if (useOpenFile.getState().path === path) useOpenFile.setState({ draft: version });
    } else if (draft !== null) {
      useOpenFile.setState({ draft: null });
      await requireBackend().dropDraft(path);
    }
    storeInBrowser(path, undefined);
  } catch (error) {
    if (!(error instanceof BackendError)) throw error;
    const { status, theirs } = error;
    if (status === 409 && theirs === undefined) useOpenFile.setState({ draft: null });
    if (theirs === undefined) return;
    const act = () => useOpenFile.setState({ draft: theirs.version });
    const text = "Another window keeps a draft of this file, too. This one is not kept.";
    addNotice({ text, actions: [{ label: "Keep this one", act }] });
  }
}
