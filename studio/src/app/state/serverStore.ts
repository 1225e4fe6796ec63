// Store of the server connection: session, files, runs, notices. Without a server, as when opened
// from plain files, the page still edits.

import { create } from "zustand";
import type { Problem } from "../../document/problem";
import { specsOf } from "../../document/specs";
import {
  type Backend,
  BackendError,
  type FileEntry,
  type RunEntry,
  type ServerEvent,
  type Session,
} from "../backend/api";
import { followConnections } from "./connectionStore";
import { setRefusal, setSpecs, useStudio } from "./studioStore";

/** A message about the open file, shown until answered, closed or obsolete. */
export interface Notice {
  readonly text: string;
  readonly actions?: readonly { readonly label: string; readonly act: () => void }[];
}

export interface ServerState {
  /** Undefined if the page has no server. */
  readonly backend: Backend | undefined;
  readonly session: Session | undefined;
  /** State of the event stream; `locked`: the server does not accept this browser's session. */
  readonly link: "none" | "up" | "lost" | "locked";
  readonly files: readonly FileEntry[];
  readonly runs: readonly RunEntry[];
  readonly notices: readonly Notice[];
}

export const useServer = create<ServerState>(() => ({
  backend: undefined,
  session: undefined,
  link: "none",
  files: [],
  runs: [],
  notices: [],
}));

export type EventHandler = (event: ServerEvent) => void;

/**
 * Connects to the server and returns whether there is one. `onEvent` gets its events; `onConnect`
 * is called on every (re)connect, because data fetched before may be stale.
 */
export async function connectServer(
  backend: Backend,
  onEvent: EventHandler,
  onConnect: () => void,
): Promise<boolean> {
  try {
    useServer.setState({ session: await backend.session(), backend, link: "up" });
  } catch (error) {
    if (error instanceof BackendError && error.status === 401) {
      useServer.setState({ link: "locked" });
    }
    return false;
  }
  await Promise.all([refreshLists(), refreshSpecs()]);
  let hasBegun = false;
  backend.listen({
    onEvent: (event) => {
      if (event.type === "runs") void refreshRuns();
      if (event.type === "file") void refreshFiles();
      onEvent(event);
    },
    onLink: (is) => {
      if (!is) void handleDisconnect(backend);
      else if (hasBegun) void handleReconnect(backend, onConnect);
      else {
        // Covers changes between the first lists and the stream's begin.
        void refreshLists();
        onConnect();
      }
      hasBegun = true;
    },
  });
  return true;
}

/**
 * The stream broke: tells a missing server from one that rejects the session. The first may turn
 * into the second, since a restarted server has a new secret.
 */
async function handleDisconnect(backend: Backend): Promise<void> {
  const { link } = useServer.getState();
  if (link === "up") useServer.setState({ link: "lost" });
  try {
    await backend.session();
  } catch (error) {
    const isLocked = error instanceof BackendError && error.status === 401;
    if (useServer.getState().link === "up") return;
    useServer.setState({ link: isLocked ? "locked" : "lost" });
  }
}

async function handleReconnect(backend: Backend, onConnect: () => void): Promise<void> {
  try {
    useServer.setState({ session: await backend.session(), link: "up" });
    await Promise.all([refreshLists(), refreshSpecs()]);
    onConnect();
  } catch (error) {
    showError(error);
  }
}

/** The backend; throws a `BackendError` if there is none. */
export function requireBackend(): Backend {
  const { backend } = useServer.getState();
  if (backend === undefined) {
    const remedy = "open it with `euphrates studio`";
    throw new BackendError(0, { message: "the page is without its server", remedy });
  }
  return backend;
}

export function isReadOnly({ session }: ServerState): boolean {
  return session?.read_only ?? false;
}

/** Runs a request of the user: shows its error, or clears the previous one on success. */
export async function userRequest(what: (backend: Backend) => Promise<void>): Promise<boolean> {
  const { refusal } = useStudio.getState();
  const isDone = await pageRequest(what);
  // Keeps a refusal that came up in the meantime.
  const isPrevious = refusal !== undefined && useStudio.getState().refusal === refusal;
  if (isDone && isPrevious) setRefusal(undefined);
  return isDone;
}

/** Runs a request of the page itself: shows its error, but never clears one. */
export async function pageRequest(what: (backend: Backend) => Promise<void>): Promise<boolean> {
  try {
    await what(requireBackend());
    return true;
  } catch (error) {
    showError(error);
    return false;
  }
}

function showError(error: unknown): void {
  if (!(error instanceof BackendError)) throw error;
  const { message, place, remedy }: Problem = error;
  setRefusal({ message, place, remedy });
}

export async function refreshLists(): Promise<void> {
  await Promise.all([refreshFiles(), refreshRuns()]);
}

export async function refreshFiles(): Promise<void> {
  await silentRequest(async (backend) => {
    const files = await followConnections(backend, await backend.files());
    useServer.setState({ files });
  });
}

export async function refreshRuns(): Promise<void> {
  await silentRequest(async (backend) => useServer.setState({ runs: await backend.runs() }));
}

/** Fetches the modules: running a script may have defined new ones. */
export async function refreshSpecs(): Promise<void> {
  await silentRequest(async (backend) => setSpecs(specsOf(await backend.modules())));
}

/** Runs a request without showing its error: it is repeated on reconnect. */
async function silentRequest(what: (backend: Backend) => Promise<void>): Promise<void> {
  try {
    await what(requireBackend());
  } catch (error) {
    if (!(error instanceof BackendError)) throw error;
  }
}

export function addNotice(notice: Notice): void {
  useServer.setState(({ notices }) => ({
    notices: [...notices.filter(({ text }) => text !== notice.text), notice],
  }));
}

/** Removes all notices: the file was saved, or another one opened. */
export function clearNotices(): void {
  useServer.setState({ notices: [] });
}

export function dismissNotice(notice: Notice): void {
  useServer.setState(({ notices }) => ({ notices: notices.filter((one) => one !== notice) }));
}
