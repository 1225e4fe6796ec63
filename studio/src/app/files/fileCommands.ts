// Commands that open and save files, on the server or without one in the browser.

import { newFlow } from "../../document/flow";
import { readPython } from "../../document/python/readPython";
import { writeDocument } from "../../document/writeDocument";
import { downloadText } from "../export/download";
import { isReadOnly, useServer } from "../state/serverStore";
import { currentFlow, loadDocument, markSaved, setRefusal, useStudio } from "../state/studioStore";
import { showDialog, showSidePanel } from "../state/viewStore";
import { confirmLeave, loadUnsavedFlow, saveToOpenFile, slug } from "./openFile";

/** Shows the server's file list, or without a server the browser's file picker. */
export function openFile(): void {
  if (useServer.getState().backend === undefined) pickFile();
  else showSidePanel("files");
}

/** Opens a file of the browser's computer. */
export function pickFile(): void {
  const input = Object.assign(document.createElement("input"), {
    type: "file",
    accept: ".json,.py",
  });
  input.addEventListener("change", async () => {
    const [file] = input.files ?? [];
    if (file === undefined || !confirmLeave()) return;
    const text = await file.text();
    if (file.name.endsWith(".py")) openPython(text);
    else loadUnsavedFlow(newFlow());
    if (!file.name.endsWith(".py")) loadDocument(text);
  });
  input.click();
}

function openPython(text: string): void {
  const { flow, problems } = readPython(text, useStudio.getState().specs);
  if (flow !== undefined) loadUnsavedFlow(flow);
  const [problem] = problems;
  if (problem === undefined) return;
  const { message, line, column, remedy } = problem;
  setRefusal({ message, place: `line ${line}, column ${column}`, remedy });
}

function canWrite(): boolean {
  const server = useServer.getState();
  return server.backend !== undefined && !isReadOnly(server);
}

/** Saves to the open file, asks for a path if there is none, or downloads without a server. */
export async function save(): Promise<void> {
  if (!canWrite()) download();
  else if ((await saveToOpenFile()) === "nowhere") showDialog("save");
}

export function saveAs(): void {
  if (canWrite()) showDialog("save");
  else download();
}

function download(): void {
  const flow = currentFlow();
  const { isComplete } = useStudio.getState();
  if (!isComplete) {
    const remedy = "it is saved under another name";
    setRefusal({ message: "the file could be read in part only", remedy });
  }
  const name = `${slug(flow.name)}${isComplete ? "" : ".rescued"}.json`;
  downloadText(name, "application/json", `${writeDocument(flow)}\n`);
  markSaved();
}
