// The actions of the page: buttons, shortcuts and the help dialog are built from this list.

import { flushSync } from "react-dom";
import {
  copySelection,
  deleteSelection,
  foldSelection,
  groupSelection,
  pasteClipboard,
  ungroupSelection,
} from "../canvas/editCommands";
import { openFile, save, saveAs } from "../files/fileCommands";
import { existingOutputs } from "../run/outputs";
import { startRun, stopRun } from "../run/runControl";
import { missingVariables } from "../state/runSettings";
import { useServer } from "../state/serverStore";
import {
  autoLayoutFlow,
  currentFlow,
  endStep,
  redoEdit,
  setRefusal,
  setSelection,
  undoEdit,
} from "../state/studioStore";
import { openPanel, showDialog, showSidePanel } from "../state/viewStore";

export interface Action {
  readonly name: string;
  /** The text of its button. */
  readonly label: string;
  readonly help: string;
  /** Shortcuts as the help dialog shows them; Ctrl stands for Cmd on a Mac. */
  readonly keys: readonly string[];
  readonly run: () => void;
}

export const ACTIONS: readonly Action[] = [
  action("new", "New…", "Start from an empty flow or a template", ["Ctrl+Alt+N"], () =>
    showDialog("gallery"),
  ),
  action("open", "Open…", "Open a flow: its document or its Python", ["Ctrl+O"], openFile),
  action("save", "Save", "Save the flow", ["Ctrl+S"], () => void save()),
  action("saveAs", "Save as…", "Save the flow elsewhere", ["Ctrl+Shift+S"], saveAs),
  action("export", "Export…", "Export a picture or a program", ["Ctrl+Shift+E"], () =>
    showDialog("export"),
  ),
  action("run", "Run", "Run the flow", ["Ctrl+Enter"], runFlow),
  action(
    "choose",
    "Run with…",
    "Choose variables and cluster, then run",
    ["Ctrl+Shift+Enter"],
    () => showDialog("run"),
  ),
  action("stop", "Stop", "Stop the run that is shown", ["Ctrl+."], () => void stopRun()),
  action("undo", "Undo", "Undo the last step", ["Ctrl+Z"], () => {
    endStep();
    undoEdit();
  }),
  action("redo", "Redo", "Repeat the undone step", ["Ctrl+Y", "Ctrl+Shift+Z"], redoEdit),
  action(
    "copy",
    "Copy",
    "Copy the selected modules as text",
    ["Ctrl+C"],
    () => void copySelection(),
  ),
  action(
    "paste",
    "Paste",
    "Paste modules, a document or Python",
    ["Ctrl+V"],
    () => void pasteClipboard(),
  ),
  action("delete", "Delete", "Remove what is selected", ["Delete", "Backspace"], deleteSelection),
  action("all", "Select all", "Select all modules", ["Ctrl+A"], () => {
    setSelection(new Set(currentFlow().modules.map(({ id }) => id)));
  }),
  action(
    "bundle",
    "Group",
    "Put the selected modules into a titled box",
    ["Ctrl+G"],
    groupSelection,
  ),
  action("ungroup", "Ungroup", "Dissolve the selected group", ["Ctrl+Shift+G"], ungroupSelection),
  action("fold", "Fold", "Fold the selected group, or unfold it", ["f"], foldSelection),
  action(
    "arrange",
    "Lay out",
    "Draw all modules from left to right",
    ["Ctrl+Shift+L"],
    autoLayoutFlow,
  ),
  action("search", "Find a module", "Search the palette", ["/"], () => {
    flushSync(() => showSidePanel("modules"));
    focus("palette-search");
  }),
  action("rename", "Rename", "Rename the selected module, or the flow", ["F2"], () => {
    flushSync(() => openPanel("right"));
    focus("name");
  }),
  action("help", "Keys", "Show this list", ["?"], showHelp),
];

function action(
  name: string,
  label: string,
  help: string,
  keys: readonly string[],
  run: () => void,
): Action {
  return { name, label, help, keys, run };
}

export function actionOf(name: string): Action {
  const found = ACTIONS.find((action) => action.name === name);
  if (found === undefined) throw new Error(`no action ${name}`);
  return found;
}

function focus(id: string): void {
  const field = document.getElementById(id);
  field?.focus();
  if (field instanceof HTMLInputElement) field.select();
}

function showHelp(): void {
  const help = document.getElementById("help");
  if (help instanceof HTMLDialogElement) help.showModal();
}

/** Runs the flow; opens the dialog first if a variable has no value. */
function runFlow(): void {
  if (useServer.getState().link !== "up") {
    const remedy = "open the page with `euphrates studio`";
    setRefusal({ message: "there is no server to run it", remedy });
  } else if (missingVariables(currentFlow()).length > 0) showDialog("run");
  else void startUnlessReplacing();
}

/** Starts the run, or asks first if it would find its output. */
async function startUnlessReplacing(): Promise<void> {
  if ((await existingOutputs()).length > 0) showDialog("replace");
  else await startRun();
}
