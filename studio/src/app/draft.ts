// The draft: what is drawn is kept in the browser as it is, so that nothing is lost when the window
// closes before it was saved.

import { newFlow } from "../document/flow";
import { open } from "../document/open";
import { write } from "../document/write";
import { store } from "./beside";
import { useOpened } from "./files";
import { isReadOnly, useServer } from "./server";
import { begin, edit, isDirty, openText, useStudio } from "./studio";

const KEY = "euphrates.draft";
/** Long enough that nobody who types waits for it. */
const PAUSE_MS = 400;

/** Takes up the draft of last time, if there is one, and keeps one from now on. */
export function keepDraft(storage: Storage): () => void {
  const draft = storage.getItem(KEY);
  if (draft !== null) takeUp(draft);
  let timer: ReturnType<typeof setTimeout> | undefined;
  // Whoever has drawn nothing leaves what another tab has kept.
  let isBehind = false;
  const keep = () => {
    isBehind = false;
    // What has a file has its draft beside that, unless there nothing may be written.
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
  // What was kept has been saved then, or was left after asking: it is not to come again.
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

/** As a step that can be undone, so that it is not taken for saved. */
function takeUp(text: string): void {
  const { flow, problems, isWhole } = open(text);
  if (!isWhole) openText(text);
  else if (write(flow) !== write(newFlow())) {
    begin(newFlow());
    edit("take up the draft", () => flow);
    useStudio.setState({ strange: problems });
  }
}
