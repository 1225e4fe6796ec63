// What of a browser and of a server the page's own state needs, for tests without either.

import { vi } from "vitest";
import { type Backend, BackendError, type FileText } from "../src/app/backend/border";
import { useServer } from "../src/app/server";

/** What a browser has stored. */
export function storageOf(entries: readonly (readonly [string, string])[] = []): Storage {
  const kept = new Map(entries);
  return {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, text: string) => void kept.set(key, text),
    removeItem: (key: string) => void kept.delete(key),
  } as unknown as Storage;
}

/** A window that only has an address and a store. Gives what tells it an event. */
export function withWindow(): (event: string) => void {
  const heard = new EventTarget();
  vi.stubGlobal("window", {
    history: { pushState: () => {}, replaceState: () => {} },
    addEventListener: heard.addEventListener.bind(heard),
    removeEventListener: heard.removeEventListener.bind(heard),
    confirm: () => true,
    localStorage: storageOf(),
  });
  return (event) => void heard.dispatchEvent(new Event(event));
}

/** A server that can do what is given, and else has nothing. */
export function withBackend(can: Partial<Backend>): void {
  const backend = { files: async () => [], runs: async () => [], ...can } as unknown as Backend;
  useServer.setState({ backend, link: "up", notices: [], runs: [] });
}

/** A server's no. */
export function no(message: string, status = 400, theirs?: FileText): BackendError {
  return new BackendError(status, { message }, theirs);
}
