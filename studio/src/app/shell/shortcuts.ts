// Keyboard shortcuts and clipboard events of the page.

import { copyModules } from "../../document/clipboard";
import { encodeId } from "../canvas/canvasId";
import { pasteModules } from "../canvas/editCommands";
import { currentFlow, useStudio } from "../state/studioStore";
import { ACTIONS } from "./actions";

/** Installs the shortcuts and clipboard handlers; returns the function that removes them. */
export function installShortcuts(): () => void {
  const stop = new AbortController();
  const options = { signal: stop.signal };
  window.addEventListener("keydown", onKey, options);
  window.addEventListener("copy", onCopy, options);
  window.addEventListener("paste", onPaste, options);
  return () => stop.abort();
}

function onCopy(event: ClipboardEvent): void {
  const { selectedModules } = useStudio.getState();
  if (isTyping(event.target) || selectedModules.size === 0) return;
  event.preventDefault();
  event.clipboardData?.setData("text/plain", copyModules(currentFlow(), selectedModules));
}

function onPaste(event: ClipboardEvent): void {
  if (isTyping(event.target)) return;
  event.preventDefault();
  pasteModules(event.clipboardData?.getData("text/plain") ?? "");
}

/** Runs the action of a shortcut; in text fields, only those of `isGlobal`. */
function onKey(event: KeyboardEvent): void {
  const pressed = keyOf(event);
  if (pressed === "Escape") leaveField(event.target);
  const found = ACTIONS.find(({ keys }) => keys.includes(pressed));
  // Handled by clipboard events, which need no permission.
  if (found === undefined || found.name === "copy" || found.name === "paste") return;
  if (isTyping(event.target) && !isGlobal(found.name)) return;
  // An open dialog takes precedence.
  if (document.querySelector("dialog[open]") !== null) return;
  event.preventDefault();
  found.run();
}

/** Leaves a field of a form for the card of its module, where the other shortcuts work. */
function leaveField(field: EventTarget | null): void {
  const isLeft = isTyping(field) && field === document.activeElement;
  if (!isLeft || !(field instanceof HTMLElement) || field.closest("dialog") !== null) return;
  field.blur();
  const [id] = useStudio.getState().selectedModules;
  if (id !== undefined) focusCard(id);
}

function focusCard(id: string): void {
  const card = document.querySelector(`.react-flow__node[data-id="${CSS.escape(encodeId(id))}"]`);
  if (card instanceof HTMLElement) card.focus({ preventScroll: true });
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
