// What a draft beside its file says, and where it is kept while there is no server to keep it.

import type { Flow } from "../document/flow";
import { isObject, readJson } from "../document/json";
import { openValue } from "../document/open";
import { write } from "../document/write";
import { isReadOnly, useServer } from "./server";
import { refuse } from "./studio";

/** What is drawn, and not saved. */
export interface Draft {
  readonly flow: Flow;
  /** The file that it was drawn over: saving must not replace another one without asking. */
  readonly base: string | null;
}

/** The draft as text. */
export function draftText({ flow, base }: Draft): string {
  return `{"base": ${JSON.stringify(base)}, "document": ${write(flow)}}\n`;
}

/** The draft that a text is; nothing if it is none. */
export function readDraft(text: string): Draft | undefined {
  const { value, isWhole } = readJson(text);
  const document = isObject(value) ? value.get("document") : undefined;
  if (!isWhole || !isObject(value) || !isObject(document)) return undefined;
  const base = value.get("base");
  return { flow: openValue(document).flow, base: typeof base === "string" ? base : null };
}

/** A draft that is kept in the browser; other folders' files may have the same path. */
function keyOf(path: string): string {
  return `euphrates.draft ${useServer.getState().session?.root}/${path}`;
}

/** Keeps a draft in the browser until the server is back. */
export function keepHere(path: string, draft: Draft | undefined): void {
  if (draft === undefined) window.localStorage.removeItem(keyOf(path));
  else store(window.localStorage, keyOf(path), draftText(draft));
}

/** Puts a text into the browser's store, or tells that it has no room. */
export function store(storage: Storage, key: string, text: string): void {
  try {
    storage.setItem(key, text);
  } catch {
    refuse({ message: "the flow is too large for the browser to keep", remedy: "save it" });
  }
}

/** What was kept of a file that is not saved. */
export interface Kept {
  readonly text: string;
  /** The draft beside the file as it was seen; null if there is none there. */
  readonly version: string | null;
}

/** Looks for the draft of a file, in the browser and beside the file; the browser's is newer. */
export async function keptOf(path: string): Promise<Kept | undefined> {
  const { backend } = useServer.getState();
  const isBeside = !isReadOnly(useServer.getState());
  const beside = isBeside ? await backend?.readDraft(path) : undefined;
  const here = window.localStorage.getItem(keyOf(path));
  return here === null ? beside : { text: here, version: beside?.version ?? null };
}

/** What was kept of a file is not needed any more. */
export async function dropKept(path: string): Promise<void> {
  keepHere(path, undefined);
  await useServer.getState().backend?.dropDraft(path);
}
