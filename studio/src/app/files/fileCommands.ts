// Commands that open and save files, on the server or without one in the browser.

import { newFlow } from "../../document/flow";
import { readPython } from "../../document/python/readPython";
import { write } from "../../document/writeDocument";
import { isReadOnly, useServer } from "../state/serverStore";
import { flowNow, markSaved, openText, refuse, useStudio } from "../state/studioStore";
import { showDialog, showSide } from "../state/viewStore";
import { beginUnnamed, mayLeave, saveOpened, slug } from "./openFile";

/** Shows the server's file list, or without a server the browser's file picker. */
export function openFile(): void {
  if (useServer.getState().backend === undefined) pickFile();
  else showSide("files");
}

/** Opens a file of the browser's computer. */
export function pickFile(): void {
  const input = Object.assign(document.createElement("input"), {
    type: "file",
    accept: ".json,.py",
  });
  input.addEventListener("change", async () => {
    const [file] = input.files ?? [];
    if (file === undefined || !mayLeave()) return;
    const text = await file.text();
    if (file.name.endsWith(".py")) openPython(text);
    else beginUnnamed(newFlow());
    if (!file.name.endsWith(".py")) openText(text);
  });
  input.click();
}

function openPython(text: string): void {
  const { flow, problems } = readPython(text, useStudio.getState().specs);
  if (flow !== undefined) beginUnnamed(flow);
  const [problem] = problems;
  if (problem === undefined) return;
  const { message, line, column, remedy } = problem;
  refuse({ message, place: `line ${line}, column ${column}`, remedy });
}

function mayWrite(): boolean {
  const server = useServer.getState();
  return server.backend !== undefined && !isReadOnly(server);
}

/** Saves to the open file, asks for a path if there is none, or downloads without a server. */
export async function save(): Promise<void> {
  if (!mayWrite()) download();
  else if ((await saveOpened()) === "nowhere") showDialog("save");
}

export function saveElsewhere(): void {
  if (mayWrite()) showDialog("save");
  else download();
}

function download(): void {
  const flow = flowNow();
  const { isWhole } = useStudio.getState();
  if (!isWhole) {
    const remedy = "it is saved under another name";
    refuse({ message: "the file could be read in part only", remedy });
  }
  const blob = new Blob([`${write(flow)}\n`], { type: "application/json" });
  const url = URL.createObjectURL(blob);
  const name = slug(flow.name);
  const link = Object.assign(document.createElement("a"), {
    href: url,
    download: `${name}${isWhole ? "" : ".rescued"}.json`,
  });
  link.click();
  URL.revokeObjectURL(url);
  markSaved();
}
