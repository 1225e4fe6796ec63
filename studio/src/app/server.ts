// What the page knows of the server: whether it is there, what it has, and what is to be told of
// it. Opened as files, or by a plain web server, the page has none and edits all the same.

import { create } from "zustand";
import type { Problem } from "../document/problem";
import { specsOf } from "../document/specs";
import {
  type Backend,
  BackendError,
  type FileEntry,
  type RunEntry,
  type ServerEvent,
  type Session,
} from "./backend/border";
import { knowModules, refuse, useStudio } from "./studio";

/** Something to be told of the open file until it is answered, closed, or true no more. */
export interface Notice {
  readonly text: string;
  readonly answers?: readonly { readonly label: string; readonly act: () => void }[];
}

export interface Server {
  /** None: the page is alone. */
  readonly backend: Backend | undefined;
  readonly session: Session | undefined;
  /** Whether it can be heard; `locked`: it does not know this browser. */
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
 * Looks whether there is a server; `hear` gets its events, `found` is called whenever it can be
 * heard again, and the first time: what was asked for before may be old by then.
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
        // What happened after the lists and before the stream is in neither.
        void relist();
        found();
      }
      hasBegun = true;
    },
  });
  return true;
}

/**
 * There is no stream: either nobody is there, or whoever is there does not know this browser. It
 * may be the one after the other: a server that is started anew has a new secret.
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

/** The server, or why there is none to ask. */
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

/** Does what somebody asks of the server: says why not, or no more why the last was not done. */
export async function ask(what: (backend: Backend) => Promise<void>): Promise<boolean> {
  const { refused } = useStudio.getState();
  const isDone = await look(what);
  // What was refused in the meantime stays to be read.
  const isOld = refused !== undefined && useStudio.getState().refused === refused;
  if (isDone && isOld) refuse(undefined);
  return isDone;
}

/** Looks by itself for what the page shows, and says why not if it cannot. */
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

/** The modules there are now: a script that was run may have brought its own. */
export async function remodule(): Promise<void> {
  await quietly(async (backend) => knowModules(specsOf(await backend.modules())));
}

/** What is not there now is asked for again when the server is back. */
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

/** What was told of the file is over: it is saved, or another is open. */
export function dismissAll(): void {
  useServer.setState({ notices: [] });
}

export function dismiss(notice: Notice): void {
  useServer.setState(({ notices }) => ({ notices: notices.filter((one) => one !== notice) }));
}
