// Stubs of window, storage and backend for tests without a browser or server.

import { vi } from "vitest";
import { type Backend, BackendError, type FileText } from "../src/app/backend/api";
import { useServer } from "../src/app/state/serverStore";

/** A storage with entries. */
export function storageOf(entries: readonly (readonly [string, string])[] = []): Storage {
  const kept = new Map(entries);
  return {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, text: string) => void kept.set(key, text),
    removeItem: (key: string) => void kept.delete(key),
  } as unknown as Storage;
}

/** Stubs `window` with history and storage; returns the function that dispatches an event. */
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

/** Connects a backend with the given methods; file and run lists are empty by default. */
export function withBackend(can: Partial<Backend>): void {
  const backend = { files: async () => [], runs: async () => [], ...can } as unknown as Backend;
  useServer.setState({ backend, link: "up", notices: [], runs: [] });
}

/** An error response. */
export function no(message: string, status = 400, theirs?: FileText): BackendError {
  return new BackendError(status, { message }, theirs);
}
