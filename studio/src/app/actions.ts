// Everything that can be done, once: buttons, keys and the help page are made of this list.

import { whyNot } from "../document/check";
import { attach, detach, placeNamed, queueBetween, removeModules, splice } from "../document/edits";
import { newFlow } from "../document/flow";
import { type Position, withPositions } from "../document/layout";
import { copy, paste } from "../document/paste";
import { readPython } from "../document/python/read";
import { write } from "../document/write";
import { CARD, GAP, withRoom } from "./autolayout";
import { beginUnnamed, mayLeave, saveOpened, slug } from "./files";
import { start, stop } from "./running";
import { isReadOnly, useServer } from "./server";
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
} from "./studio";
import { missingFor } from "./variables";
import { showDialog, showSide } from "./view";

export interface Action {
  readonly name: string;
  /** What its button says. */
  readonly label: string;
  readonly help: string;
  /** Keys, as the help shows them; Ctrl is Cmd on a Mac. */
  readonly keys: readonly string[];
  readonly run: () => void;
}

/** How far from what was copied it is pasted, in pixels. */
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

/** Has keys and the clipboard do what the list says; gives what ends that. */
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

/** Runs the action of a key, unless somebody is typing. */
function onKey(event: KeyboardEvent): void {
  const pressed = keyOf(event);
  const found = ACTIONS.find(({ keys }) => keys.includes(pressed));
  // The browser makes events of its own of these two, which need no permission.
  if (found === undefined || found.name === "copy" || found.name === "paste") return;
  if (isTyping(event.target) && !isGlobal(found.name)) return;
  // A question is answered first.
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

/** While somebody types, undo and the like are the text field's own. */
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

/** Places a module; behind the selected one, if it is one and can be attached. */
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

/** Places a module into a queue. */
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

/** The first free place right of a module, or below all. */
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

/** Pastes a text, beside where it was copied. */
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

/** Runs it; a variable without a value is asked for first. */
function runFlow(): void {
  if (useServer.getState().link !== "up") {
    const remedy = "open the page with `euphrates studio`";
    refuse({ message: "there is no server to run it", remedy });
  } else if (missingFor(flowNow()).length > 0) showDialog("run");
  else void start();
}

/** With a server its files are listed; else one of this computer is asked for. */
function openFile(): void {
  if (useServer.getState().backend === undefined) pickFile();
  else showSide("files");
}

/** Opens a file of the computer that shows the page. */
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

/** Where it is from; nowhere yet, is asked. Without a server, the browser saves it. */
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
