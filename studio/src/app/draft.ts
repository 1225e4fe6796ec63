// The draft: what is drawn is kept in the browser as it is, so that nothing is lost when the window
// closes before it was saved.

import { write } from "../document/write";
import { useOpened } from "./files";
import { isReadOnly, useServer } from "./server";
import { openText, refuse, useStudio } from "./studio";

const KEY = "euphrates.draft";
/** Long enough that nobody who types waits for it. */
const PAUSE_MS = 400;

/** Takes up the draft of last time, if there is one, and keeps one from now on. */
export function keepDraft(storage: Storage): () => void {
  const draft = storage.getItem(KEY);
  if (draft !== null) openText(draft);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const keep = () => {
    // What has a file has its draft beside that.
    const hasFile = useOpened.getState().path !== undefined;
    if (hasFile && !isReadOnly(useServer.getState())) return;
    try {
      storage.setItem(KEY, write(useStudio.getState().history.now));
    } catch {
      refuse({ message: "the flow is too large for the browser to keep", remedy: "save it" });
    }
  };
  const stop = useStudio.subscribe((now, before) => {
    if (now.history.now === before.history.now) return;
    clearTimeout(timer);
    timer = setTimeout(keep, PAUSE_MS);
  });
  const leave = () => {
    clearTimeout(timer);
    keep();
  };
  window.addEventListener("pagehide", leave);
  return () => {
    stop();
    clearTimeout(timer);
    window.removeEventListener("pagehide", leave);
  };
}
