// The script that is shown: the Python code of a module, read from and saved to the project.

import { create } from "zustand";
import type { ScriptReference } from "../../document/code/pythonFile";
import { BackendError } from "../backend/api";
import { refreshSpecs, requireBackend } from "../state/serverStore";
import { showDialog } from "../state/viewStore";

export interface ScriptState {
  readonly reference: ScriptReference;
  /** The text of the file as last read; undefined until it is there. */
  readonly text: string | undefined;
  readonly version: string | null;
  readonly failure: { readonly message: string; readonly remedy?: string | undefined } | undefined;
}

export const useScript = create<ScriptState>(() => ({
  reference: { path: "", name: "" },
  text: undefined,
  version: null,
  failure: undefined,
}));

/** Opens the dialog with the code of a module. */
export async function openScript(reference: ScriptReference): Promise<void> {
  useScript.setState({ reference, text: undefined, version: null, failure: undefined });
  showDialog("script");
  await attempt(async () => {
    const { text, version } = await requireBackend().read(reference.path);
    if (useScript.getState().reference === reference) useScript.setState({ text, version });
  });
}

/** Saves the script unless another writer has changed it; returns whether it is saved. */
export async function saveScript(text: string): Promise<boolean> {
  const { reference, version } = useScript.getState();
  return attempt(async () => {
    const saved = await requireBackend().save(reference.path, text, version);
    useScript.setState({ text, version: saved, failure: undefined });
    void refreshSpecs();
  });
}

async function attempt(what: () => Promise<void>): Promise<boolean> {
  try {
    await what();
    return true;
  } catch (error) {
    if (!(error instanceof BackendError)) throw error;
    const { message, status } = error;
    const remedy = status === 409 ? "close it and open it again" : error.remedy;
    useScript.setState({ failure: { message, remedy } });
    return false;
  }
}
