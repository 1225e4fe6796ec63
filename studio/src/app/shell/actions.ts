// The actions of the page: buttons, shortcuts and the help dialog are built from this list.

import { whyNot } from "../../document/check";
import { copy, paste } from "../../document/clipboard";
import {
  attach,
  detach,
  placeNamed,
  queueBetween,
  removeModules,
  splice,
} from "../../document/edits";
import { newFlow } from "../../document/flow";
import { type Position, withPositions } from "../../document/layout";
import { readPython } from "../../document/python/readPython";
import { write } from "../../document/writeDocument";
import { beginUnnamed, mayLeave, saveOpened, slug } from "../files/openFile";
import { start, stop } from "../run/runControl";
import { CARD, GAP, withRoom } from "../state/autoLayout";
import { missingFor } from "../state/runSettings";
import { isReadOnly, useServer } from "../state/serverStore";
import {
  arrange,
  back,
  edit,
  flowNow,
  forward,
  markSaved,
  openText,
  refuse,
  seek,
  select,
  settle,
  useStudio,
} from "../state/studioStore";
import { showDialog, showSide } from "../state/viewStore";

export interface Action {
  readonly name: string;
  /** The text of its button. */
  readonly label: string;
  readonly help: string;
  /** Shortcuts as the help dialog shows them; Ctrl stands for Cmd on a Mac. */
  readonly keys: readonly string[];
  readonly run: () => void;
}

/** Distance of a paste from its source, and of stacked modules, in pixels. */
const PASTE_OFFSET = 32;

export const ACTIONS: readonly Action[] = [
  action("new", "New…", "Begin with an empty flow, or one of the gallery", ["Ctrl+Alt+N"], () =>
    showDialog("gallery"),
  ),
  action("open", "Open…", "Open a flow: its document or its Python", ["Ctrl+O"], openFile),
  action("save", "Save", "Save the flow", ["Ctrl+S"], () => void save()),
  action("saveAs", "Save as…", "Save the flow elsewhere", ["Ctrl+Shift+S"], saveElsewhere),
  action("run", "Run", "Run the flow", ["Ctrl+Enter"], runFlow),
  action(
    "choose",
    "Run with…",
    "Say with which values, and where, it runs",
    ["Ctrl+Shift+Enter"],
    () => showDialog("run"),
  ),
  action("stop", "Stop", "Stop the run that is shown", ["Ctrl+."], () => void stop()),
  action("undo", "Undo", "Take the last step back", ["Ctrl+Z"], () => {
    settle();
    back();
  }),
  action("redo", "Redo", "Do it again", ["Ctrl+Y", "Ctrl+Shift+Z"], forward),
  action("copy", "Copy", "Copy the selected modules as text", ["Ctrl+C"], () => void copyText()),
  action(
    "paste",
    "Paste",
    "Paste modules, a document or Python",
    ["Ctrl+V"],
    () => void pasteText(),
  ),
  action("delete", "Delete", "Remove what is selected", ["Delete", "Backspace"], remove),
  action("all", "Select all", "Select all modules", ["Ctrl+A"], () => {
    select(new Set(flowNow().modules.map(({ id }) => id)));
  }),
  action("arrange", "Lay out", "Draw all modules from left to right", ["Ctrl+Shift+L"], arrange),
  action("search", "Find a module", "Search the palette", ["/"], () => focus("palette-search")),
  action("rename", "Rename", "Rename the selected module, or the flow", ["F2"], () =>
    focus("name"),
  ),
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

/** Installs the shortcuts and clipboard handlers; returns the function that removes them. */
export function listen(): () => void {
  const stop = new AbortController();
  const options = { signal: stop.signal };
  window.addEventListener("keydown", onKey, options);
  window.addEventListener("copy", onCopy, options);
  window.addEventListener("paste", onPaste, options);
  return () => stop.abort();
}

function onCopy(event: ClipboardEvent): void {
  const { modules } = useStudio.getState();
  if (isTyping(event.target) || modules.size === 0) return;
  event.preventDefault();
  event.clipboardData?.setData("text/plain", copy(flowNow(), modules));
}

function onPaste(event: ClipboardEvent): void {
  if (isTyping(event.target)) return;
  event.preventDefault();
  pasteFlow(event.clipboardData?.getData("text/plain") ?? "");
}

/** Runs the action of a shortcut; in text fields, only those of `isGlobal`. */
function onKey(event: KeyboardEvent): void {
  const pressed = keyOf(event);
  const found = ACTIONS.find(({ keys }) => keys.includes(pressed));
  // Handled by clipboard events, which need no permission.
  if (found === undefined || found.name === "copy" || found.name === "paste") return;
  if (isTyping(event.target) && !isGlobal(found.name)) return;
  // An open dialog takes precedence.
  if (document.querySelector("dialog[open]") !== null) return;
  event.preventDefault();
  found.run();
}

function keyOf({ key, ctrlKey, metaKey, altKey, shiftKey }: KeyboardEvent): string {
  const isLetter = /^[a-z]$/i.test(key);
  const held = [
    ctrlKey || metaKey ? "Ctrl+" : "",
    altKey ? "Alt+" : "",
    shiftKey && (isLetter || key.length > 1) ? "Shift+" : "",
  ];
  return held.join("") + (isLetter && held[0] !== "" ? key.toUpperCase() : key);
}

/** Whether a shortcut works in text fields too; undo and the like stay the field's own. */
function isGlobal(name: string): boolean {
  return ["save", "saveAs", "open", "rename", "run", "choose", "stop"].includes(name);
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input, textarea, select, dialog *");
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

/** Places a module; if one module is selected, behind it, attached where that is possible. */
export function add(module: string, position?: Position): void {
  const { specs, modules, places } = useStudio.getState();
  const [behind, ...more] = modules;
  const before = more.length === 0 && position === undefined ? behind : undefined;
  const corner = before === undefined ? undefined : places.get(before);
  const at = position ?? beside(corner);
  let id = "";
  const isPlaced = edit(`place ${module}`, (flow) => {
    const placed = placeNamed(flow, specs, module, at);
    id = placed.id;
    if (before === undefined) return placed.flow;
    const ends = [
      { id: before, port: undefined },
      { id, port: undefined },
    ] as const;
    const queue = queueBetween(placed.flow, specs, ...ends);
    const isPossible = whyNot(placed.flow, specs, queue) === undefined;
    return isPossible ? attach(placed.flow, specs, queue) : placed.flow;
  });
  if (isPlaced) seek(new Set([id]));
}

/** Places a module and splices it into a queue, moving the modules behind it to make room. */
export function addInto(module: string, queue: number, dropped: Position): void {
  const { specs, places } = useStudio.getState();
  let id = "";
  const isPlaced = edit(`place ${module} in a queue`, (flow) => {
    const { from = "", to = "" } = flow.queues[queue] ?? {};
    const room = withRoom(places, { from, to, dropped });
    const placed = placeNamed(withPositions(flow, room.places), specs, module, room.at);
    id = placed.id;
    return splice(placed.flow, specs, queue, id);
  });
  if (isPlaced) seek(new Set([id]));
}

/** The first free position to the right of a module, or below all modules. */
function beside(corner: Position | undefined): Position {
  const { places } = useStudio.getState();
  const taken = [...places.values()];
  const lowest = taken.reduce((most, { y }) => Math.max(most, y + CARD.height + PASTE_OFFSET), 0);
  const wanted = corner ? { x: corner.x + CARD.width + GAP.x, y: corner.y } : { x: 0, y: lowest };
  const isFree = ({ x, y }: Position) =>
    taken.every((one) => Math.abs(one.x - x) >= CARD.width || Math.abs(one.y - y) >= CARD.height);
  let place = wanted;
  while (!isFree(place)) place = { x: place.x, y: place.y + CARD.height + PASTE_OFFSET };
  return place;
}

function remove(): void {
  const { modules, queues } = useStudio.getState();
  if (modules.size === 0 && queues.size === 0) return;
  edit("delete", (flow) => removeModules(detach(flow, queues), modules));
}

async function copyText(): Promise<void> {
  const { modules } = useStudio.getState();
  if (modules.size === 0) return;
  try {
    await navigator.clipboard.writeText(copy(flowNow(), modules));
  } catch {
    refuse({ message: "the browser keeps the clipboard from the page", remedy: "press Ctrl+C" });
  }
}

async function pasteText(): Promise<void> {
  try {
    pasteFlow(await navigator.clipboard.readText());
  } catch {
    refuse({ message: "the browser keeps the clipboard from the page", remedy: "press Ctrl+V" });
  }
}

/** Pastes modules from text, offset from where they were copied. */
export function pasteFlow(text: string): void {
  const { specs } = useStudio.getState();
  const offset = { x: PASTE_OFFSET, y: PASTE_OFFSET };
  let ids: ReadonlySet<string> = new Set();
  const isPasted = edit("paste", (flow) => {
    const pasted = paste(flow, specs, text, offset);
    ids = pasted.ids;
    return pasted.flow;
  });
  if (isPasted) seek(ids);
}

/** Runs the flow; opens the dialog first if a variable has no value. */
function runFlow(): void {
  if (useServer.getState().link !== "up") {
    const remedy = "open the page with `euphrates studio`";
    refuse({ message: "there is no server to run it", remedy });
  } else if (missingFor(flowNow()).length > 0) showDialog("run");
  else void start();
}

/** Shows the server's file list, or without a server the browser's file picker. */
function openFile(): void {
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
async function save(): Promise<void> {
  if (!mayWrite()) download();
  else if ((await saveOpened()) === "nowhere") showDialog("save");
}

function saveElsewhere(): void {
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
