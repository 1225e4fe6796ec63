// Example data of a template: created beneath the server's root, unless a file of that name is
// there.

import { BackendError } from "../backend/api";
import { isReadOnly, pageRequest, refreshFiles, useServer } from "../state/serverStore";
import type { ExampleData } from "./templates";

export async function createExampleData({ path, text }: ExampleData): Promise<void> {
  const server = useServer.getState();
  if (server.backend === undefined || isReadOnly(server)) return;
  await refreshFiles();
  if (useServer.getState().files.some((file) => file.path === path)) return;
  await pageRequest(async (backend) => {
    try {
      await backend.save(path, text, null);
    } catch (error) {
      // Another program was faster: its file is read.
      if (!(error instanceof BackendError) || error.status !== 409) throw error;
    }
  });
  await refreshFiles();
}
