// Store of the project's connections, kept in a file of the project, where a team shares them.

import { create } from "zustand";
import {
  CONNECTIONS_PATH,
  type Connection,
  readConnections,
} from "../../document/forms/connections";
import type { Backend, FileEntry } from "../backend/api";

interface ConnectionState {
  readonly connections: readonly Connection[];
  /** The version of the file; null if there is none. */
  readonly version: string | null;
  /** Size and time of the file that was read. */
  readonly stamp: string;
}

export const useConnections = create<ConnectionState>(() => ({
  connections: [],
  version: null,
  stamp: "",
}));

/** Reads the connections again if their file has changed, and returns the other files. */
export async function followConnections(
  backend: Backend,
  files: readonly FileEntry[],
): Promise<readonly FileEntry[]> {
  const file = files.find(({ path }) => path === CONNECTIONS_PATH);
  const stamp = file === undefined ? "" : `${file.bytes} ${file.modified}`;
  if (stamp !== useConnections.getState().stamp) {
    useConnections.setState({ stamp });
    if (file === undefined) useConnections.setState({ connections: [], version: null });
    else await read(backend);
  }
  return files.filter((one) => one !== file);
}

async function read(backend: Backend): Promise<void> {
  const { text, version } = await backend.read(CONNECTIONS_PATH);
  useConnections.setState({ connections: readConnections(text), version });
}
