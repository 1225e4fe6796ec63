// What of a browser and of a server the page's own state needs, for tests without either.

import { vi } from "vitest";
import { type Backend, BackendError } from "../src/app/backend/border";
import { useServer } from "../src/app/server";

/** A window that only has an address. Gives what tells it an event. */
export function withWindow(): (event: string) => void {
  const heard = new EventTarget();
  vi.stubGlobal("window", {
    history: { pushState: () => {}, replaceState: () => {} },
    addEventListener: heard.addEventListener.bind(heard),
    removeEventListener: heard.removeEventListener.bind(heard),
    confirm: () => true,
  });
  return (event) => void heard.dispatchEvent(new Event(event));
}

/** A server that can do what is given, and else has nothing. */
export function withBackend(can: Partial<Backend>): void {
  const backend = { files: async () => [], runs: async () => [], ...can } as unknown as Backend;
  useServer.setState({ backend, link: "up", notices: [], runs: [] });
}

/** A server's no. */
export function no(message: string, status = 400): BackendError {
  return new BackendError(status, { message });
}
