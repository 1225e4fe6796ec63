// Keeps an unsaved flow without a writable file in localStorage, so that closing the window loses
// nothing.

import { newFlow } from "../../document/flow";
import { open } from "../../document/openDocument";
import { write } from "../../document/writeDocument";
import { isReadOnly, useServer } from "../state/serverStore";
import { begin, edit, isDirty, openText, useStudio } from "../state/studioStore";
import { store } from "./draftStore";
import { useOpened } from "./openFile";

const KEY = "euphrates.draft";
/** Debounce, long enough not to interrupt typing. */
const PAUSE_MS = 400;

/** Restores the stored draft and keeps one from now on; returns the function that stops it. */
export function keepDraft(storage: Storage): () => void {
  const draft = storage.getItem(KEY);
  if (draft !== null) takeUp(draft);
  let timer: ReturnType<typeof setTimeout> | undefined;
  // A tab without edits must not overwrite another tab's draft.
  let isBehind = false;
  const keep = () => {
    isBehind = false;
    // Files have their draft on the server, unless the session is read-only.
    const hasFile = useOpened.getState().path !== undefined;
    if (hasFile && !isReadOnly(useServer.getState())) return;
    if (hasFile && !isDirty(useStudio.getState())) return storage.removeItem(KEY);
    store(storage, KEY, write(useStudio.getState().history.now));
  };
  const stopKeeping = useStudio.subscribe((now, before) => {
    if (now.history.now === before.history.now) return;
    isBehind = true;
    clearTimeout(timer);
    timer = setTimeout(keep, PAUSE_MS);
  });
  // The draft was saved, or left after asking.
  const stopDropping = useOpened.subscribe(({ path }, before) => {
    if (path !== undefined && path !== before.path) storage.removeItem(KEY);
  });
  const leave = () => {
    clearTimeout(timer);
    if (isBehind) keep();
  };
  window.addEventListener("pagehide", leave);
  return () => {
    stopKeeping();
    stopDropping();
    clearTimeout(timer);
    window.removeEventListener("pagehide", leave);
  };
}

/** Restores a draft as an undo step, so that the flow counts as unsaved. */
function takeUp(text: string): void {
  const { flow, problems, isWhole } = open(text);
  if (!isWhole) openText(text);
  else if (write(flow) !== write(newFlow())) {
    begin(newFlow());
    edit("take up the draft", () => flow);
    useStudio.setState({ strange: problems });
  }
}
