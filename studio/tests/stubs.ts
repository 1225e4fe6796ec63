// Stubs of window, storage and backend for tests without a browser or server.

import { vi } from "vitest";
import { type Backend, BackendError, type FileText } from "../src/app/backend/api";
import { useServer } from "../src/app/state/serverStore";

/** A storage with entries. */
export function stubStorage(entries: readonly (readonly [string, string])[] = []): Storage {
  const stored = new Map(entries);
  return {
    getItem: (key: string) => stored.get(key) ?? null,
    setItem: (key: string, text: string) => void stored.set(key, text),
    removeItem: (key: string) => void stored.delete(key),
  } as unknown as Storage;
}

/** Stubs `window` with history and storage; returns the function that dispatches an event. */
export function stubWindow(): (event: string) => void {
  const events = new EventTarget();
  vi.stubGlobal("window", {
    history: { pushState: () => {}, replaceState: () => {} },
    addEventListener: events.addEventListener.bind(events),
    removeEventListener: events.removeEventListener.bind(events),
    confirm: () => true,
    localStorage: stubStorage(),
  });
  return (event) => void events.dispatchEvent(new Event(event));
}

/** Connects a backend with the given methods; file and run lists are empty by default. */
export function stubBackend(can: Partial<Backend>): void {
  const backend = { files: async () => [], runs: async () => [], ...can } as unknown as Backend;
  useServer.setState({ backend, link: "up", notices: [], runs: [] });
}

/** An error response. */
export function errorResponse(message: string, status = 400, theirs?: FileText): BackendError {
  return new BackendError(status, { message }, theirs);
}
