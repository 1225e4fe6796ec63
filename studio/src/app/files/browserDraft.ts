// Keeps an unsaved flow without a writable file in localStorage, so that closing the window loses
// nothing.

import { newFlow } from "../../document/flow";
import { openDocument } from "../../document/openDocument";
import { writeDocument } from "../../document/writeDocument";
import { isReadOnly, useServer } from "../state/serverStore";
import { edit, isDirty, loadDocument, loadFlow, useStudio } from "../state/studioStore";
import { setStorageItem } from "./draftStore";
import { useOpenFile } from "./openFile";

const STORAGE_KEY = "euphrates.draft";
/** Debounce, long enough not to interrupt typing. */
const DEBOUNCE_MS = 400;

/** Restores the stored draft and keeps one from now on; returns the function that stops it. */
export function startBrowserDraft(storage: Storage): () => void {
  const draft = storage.getItem(STORAGE_KEY);
  if (draft !== null) restoreDraft(draft);
  let timer: ReturnType<typeof setTimeout> | undefined;
  // A tab without edits must not overwrite another tab's draft.
  let isPending = false;
  const save = () => {
    isPending = false;
    // Files have their draft on the server, unless the session is read-only.
    const hasFile = useOpenFile.getState().path !== undefined;
    if (hasFile && !isReadOnly(useServer.getState())) return;
    if (hasFile && !isDirty(useStudio.getState())) return storage.removeItem(STORAGE_KEY);
    setStorageItem(storage, STORAGE_KEY, writeDocument(useStudio.getState().history.now));
  };
  const stopSaving = useStudio.subscribe((now, before) => {
    if (now.history.now === before.history.now) return;
    isPending = true;
    clearTimeout(timer);
    timer = setTimeout(save, DEBOUNCE_MS);
  });
  // The draft was saved, or left after asking.
  const stopDeleting = useOpenFile.subscribe(({ path }, before) => {
    if (path !== undefined && path !== before.path) storage.removeItem(STORAGE_KEY);
  });
  const flush = () => {
    clearTimeout(timer);
    if (isPending) save();
  };
  window.addEventListener("pagehide", flush);
  return () => {
    stopSaving();
    stopDeleting();
    clearTimeout(timer);
    window.removeEventListener("pagehide", flush);
  };
}

/** Restores a draft as an undo step, so that the flow counts as unsaved. */
function restoreDraft(text: string): void {
  const { flow, problems, isComplete } = openDocument(text);
  if (!isComplete) loadDocument(text);
  else if (writeDocument(flow) !== writeDocument(newFlow())) {
    loadFlow(newFlow());
    edit("take up the draft", () => flow);
    useStudio.setState({ openProblems: problems });
  }
}
