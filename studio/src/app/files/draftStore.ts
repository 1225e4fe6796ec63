// Drafts of files: their format, and where they are stored: on the server, or in the browser while
// the server is away.

import type { Flow } from "../../document/flow";
import { isObject, readJson } from "../../document/json";
import { openJson } from "../../document/openDocument";
import { writeDocument } from "../../document/writeDocument";
import { isReadOnly, useServer } from "../state/serverStore";
import { setRefusal } from "../state/studioStore";

/** Unsaved edits of a file. */
export interface Draft {
  readonly flow: Flow;
  /** The version of the file that was edited: saving over another one must ask. */
  readonly base: string | null;
}

/** Serializes a draft. */
export function serializeDraft({ flow, base }: Draft): string {
  return `{"base": ${JSON.stringify(base)}, "document": ${writeDocument(flow)}}\n`;
}

/** Parses a draft; undefined if the text is none. */
export function parseDraft(text: string): Draft | undefined {
  const { value, isComplete } = readJson(text);
  const document = isObject(value) ? value.get("document") : undefined;
  if (!isComplete || !isObject(value) || !isObject(document)) return undefined;
  const base = value.get("base");
  return { flow: openJson(document).flow, base: typeof base === "string" ? base : null };
}

/** The localStorage key of a draft; includes the root, since paths are relative to it. */
function storageKey(path: string): string {
  return `euphrates.draft ${useServer.getState().session?.root}/${path}`;
}

/** Stores a draft in the browser until the server is back; undefined deletes it. */
export function storeInBrowser(path: string, draft: Draft | undefined): void {
  if (draft === undefined) window.localStorage.removeItem(storageKey(path));
  else setStorageItem(window.localStorage, storageKey(path), serializeDraft(draft));
}

/** Sets a storage item; shows a refusal if the quota is exceeded. */
export function setStorageItem(storage: Storage, key: string, text: string): void {
  try {
    storage.setItem(key, text);
  } catch {
    setRefusal({ message: "the flow is too large for the browser to keep", remedy: "save it" });
  }
}

/** A stored draft. */
export interface StoredDraft {
  readonly text: string;
  /** Version of the draft on the server; null if there is none. */
  readonly version: string | null;
}

/** Loads a file's draft from the browser, where it is newer, or from the server. */
export async function loadDraft(path: string): Promise<StoredDraft | undefined> {
  const { backend } = useServer.getState();
  const isWritable = !isReadOnly(useServer.getState());
  const serverDraft = isWritable ? await backend?.readDraft(path) : undefined;
  const browserText = window.localStorage.getItem(storageKey(path));
  return browserText === null
    ? serverDraft
    : { text: browserText, version: serverDraft?.version ?? null };
}

/** Deletes a file's draft in the browser and on the server. */
export async function deleteDraft(path: string): Promise<void> {
  storeInBrowser(path, undefined);
  await useServer.getState().backend?.dropDraft(path);
}
