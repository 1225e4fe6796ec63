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
import { knowModules, refuse, useStudio } from "./studioStore";

/** A message about the open file, shown until answered, closed or obsolete. */
export interface Notice {
  readonly text: string;
  readonly answers?: readonly { readonly label: string; readonly act: () => void }[];
}

export interface Server {
  /** Undefined if the page has no server. */
  readonly backend: Backend | undefined;
  readonly session: Session | undefined;
  /** State of the event stream; `locked`: the server does not accept this browser's session. */
  readonly link: "none" | "up" | "lost" | "locked";
  readonly files: readonly FileEntry[];
  readonly runs: readonly RunEntry[];
  readonly notices: readonly Notice[];
}

export const useServer = create<Server>(() => ({
  backend: undefined,
  session: undefined,
  link: "none",
  files: [],
  runs: [],
  notices: [],
}));

export type Hear = (event: ServerEvent) => void;

/**
 * Connects to the server and returns whether there is one. `hear` gets its events; `found` is
 * called on every (re)connect, because data fetched before may be stale.
 */
export async function meet(backend: Backend, hear: Hear, found: () => void): Promise<boolean> {
  try {
    useServer.setState({ session: await backend.session(), backend, link: "up" });
  } catch (error) {
    if (error instanceof BackendError && error.status === 401) {
      useServer.setState({ link: "locked" });
    }
    return false;
  }
  await Promise.all([relist(), remodule()]);
  let hasBegun = false;
  backend.listen({
    onEvent: (event) => {
      if (event.type === "runs") void listRuns();
      if (event.type === "file") void listFiles();
      hear(event);
    },
    onLink: (is) => {
      if (!is) void lose(backend);
      else if (hasBegun) void again(backend, found);
      else {
        // Covers changes between the first lists and the stream's begin.
        void relist();
        found();
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
async function lose(backend: Backend): Promise<void> {
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

async function again(backend: Backend, found: () => void): Promise<void> {
  try {
    useServer.setState({ session: await backend.session(), link: "up" });
    await Promise.all([relist(), remodule()]);
    found();
  } catch (error) {
    tell(error);
  }
}

/** The backend; throws a `BackendError` if there is none. */
export function backendNow(): Backend {
  const { backend } = useServer.getState();
  if (backend === undefined) {
    const remedy = "open it with `euphrates studio`";
    throw new BackendError(0, { message: "the page is without its server", remedy });
  }
  return backend;
}

export function isReadOnly({ session }: Server): boolean {
  return session?.read_only ?? false;
}

/** Runs a request of the user: shows its error, or clears the previous one on success. */
export async function ask(what: (backend: Backend) => Promise<void>): Promise<boolean> {
  const { refused } = useStudio.getState();
  const isDone = await look(what);
  // Keeps a refusal that came up in the meantime.
  const isOld = refused !== undefined && useStudio.getState().refused === refused;
  if (isDone && isOld) refuse(undefined);
  return isDone;
}

/** Runs a request of the page itself: shows its error, but never clears one. */
export async function look(what: (backend: Backend) => Promise<void>): Promise<boolean> {
  try {
    await what(backendNow());
    return true;
  } catch (error) {
    tell(error);
    return false;
  }
}

function tell(error: unknown): void {
  if (!(error instanceof BackendError)) throw error;
  const { message, place, remedy }: Problem = error;
  refuse({ message, place, remedy });
}

export async function relist(): Promise<void> {
  await Promise.all([listFiles(), listRuns()]);
}

export async function listFiles(): Promise<void> {
  await quietly(async (backend) => useServer.setState({ files: await backend.files() }));
}

export async function listRuns(): Promise<void> {
  await quietly(async (backend) => useServer.setState({ runs: await backend.runs() }));
}

/** Fetches the modules: running a script may have defined new ones. */
export async function remodule(): Promise<void> {
  await quietly(async (backend) => knowModules(specsOf(await backend.modules())));
}

/** Runs a request without showing its error: it is repeated on reconnect. */
async function quietly(what: (backend: Backend) => Promise<void>): Promise<void> {
  try {
    await what(backendNow());
  } catch (error) {
    if (!(error instanceof BackendError)) throw error;
  }
}

export function notify(notice: Notice): void {
  useServer.setState(({ notices }) => ({
    notices: [...notices.filter(({ text }) => text !== notice.text), notice],
  }));
}

/** Removes all notices: the file was saved, or another one opened. */
export function dismissAll(): void {
  useServer.setState({ notices: [] });
}

export function dismiss(notice: Notice): void {
  useServer.setState(({ notices }) => ({ notices: notices.filter((one) => one !== notice) }));
}
