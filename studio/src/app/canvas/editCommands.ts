// Commands that edit the flow: place, splice, delete, copy and paste modules.

import { attachProblem } from "../../document/check";
import { copyModules, pasteText } from "../../document/clipboard";
import { setOption } from "../../document/configEdits";
import {
  attach,
  detach,
  placeNamed,
  queueBetween,
  removeModules,
  splice,
} from "../../document/edits";
import { addGroup, type Group, groupOf, removeGroup } from "../../document/groups";
import { type Position, withPositions } from "../../document/layout";
import { CARD_GAP, CARD_SIZE, makeRoom } from "../state/autoLayout";
import {
  currentFlow,
  edit,
  revealModules,
  setRefusal,
  setSelection,
  useStudio,
} from "../state/studioStore";
import { foldGroup } from "./GroupBox";

/** Distance of a paste from its source, and of stacked modules, in pixels. */
const PASTE_OFFSET = 32;

/** Places a `scan` of a data file, below all modules unless a position is given. */
export function addDataFile(path: string, position?: Position, delimiter?: string): void {
  const { specs } = useStudio.getState();
  const at = position ?? freePosition(undefined);
  let id = "";
  const isPlaced = edit(`read ${path}`, (flow) => {
    const placed = placeNamed(flow, specs, "scan", at);
    id = placed.id;
    const read = setOption(placed.flow, id, "path", path);
    return delimiter === undefined ? read : setOption(read, id, "delimiter", delimiter);
  });
  if (!isPlaced) return;
  if (position === undefined) revealModules(new Set([id]));
  else setSelection(new Set([id]));
}

/**
 * Places a module; without a position and if one module is selected, behind it, attached where that
 * is possible. A module with a position stays there: the view does not move.
 */
export function addModule(module: string, position?: Position): void {
  const { specs, selectedModules, positions } = useStudio.getState();
  const [selected, ...more] = selectedModules;
  const before = more.length === 0 && position === undefined ? selected : undefined;
  const corner = before === undefined ? undefined : positions.get(before);
  const at = position ?? freePosition(corner);
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
    const isPossible = attachProblem(placed.flow, specs, queue) === undefined;
    return isPossible ? attach(placed.flow, specs, queue) : placed.flow;
  });
  if (!isPlaced) return;
  if (position === undefined) revealModules(new Set([id]));
  else setSelection(new Set([id]));
}

/** Places a module and splices it into a queue, moving the modules behind it to make room. */
export function addModuleToQueue(module: string, queue: number, dropped: Position): void {
  const { specs, positions } = useStudio.getState();
  let id = "";
  const isPlaced = edit(`place ${module} in a queue`, (flow) => {
    const { from = "", to = "" } = flow.queues[queue] ?? {};
    const room = makeRoom(positions, { from, to, dropped });
    const placed = placeNamed(withPositions(flow, room.positions), specs, module, room.at);
    id = placed.id;
    return splice(placed.flow, specs, queue, id);
  });
  if (isPlaced) revealModules(new Set([id]));
}

/** The first free position to the right of a module, or below all modules. */
function freePosition(corner: Position | undefined): Position {
  const { positions } = useStudio.getState();
  const taken = [...positions.values()];
  const lowest = taken.reduce(
    (most, { y }) => Math.max(most, y + CARD_SIZE.height + PASTE_OFFSET),
    0,
  );
  const wanted = corner
    ? { x: corner.x + CARD_SIZE.width + CARD_GAP.x, y: corner.y }
    : { x: 0, y: lowest };
  const isFree = ({ x, y }: Position) =>
    taken.every(
      (one) => Math.abs(one.x - x) >= CARD_SIZE.width || Math.abs(one.y - y) >= CARD_SIZE.height,
    );
  let free = wanted;
  while (!isFree(free)) free = { x: free.x, y: free.y + CARD_SIZE.height + PASTE_OFFSET };
  return free;
}

export function deleteSelection(): void {
  const { selectedModules, selectedQueues } = useStudio.getState();
  if (selectedModules.size === 0 && selectedQueues.size === 0) return;
  edit("delete", (flow) => removeModules(detach(flow, selectedQueues), selectedModules));
}

/** Puts the selected modules into a group, and leads to its title. */
export function groupSelection(): void {
  const { selectedModules } = useStudio.getState();
  const known = groupOf(currentFlow(), selectedModules);
  const isDone = known !== undefined || edit("group", (flow) => addGroup(flow, selectedModules));
  if (isDone) requestAnimationFrame(() => document.getElementById("group-name")?.focus());
}

export function ungroupSelection(): void {
  const group = selectedGroup();
  if (group !== undefined) edit("ungroup", (flow) => removeGroup(flow, group.position));
}

export function foldSelection(): void {
  const group = selectedGroup();
  if (group !== undefined) foldGroup(group);
}

function selectedGroup(): Group | undefined {
  const group = groupOf(currentFlow(), useStudio.getState().selectedModules);
  if (group === undefined) {
    setRefusal({ message: "no group is selected", remedy: "click its title, or press Tab to it" });
  }
  return group;
}

export async function copySelection(): Promise<void> {
  const { selectedModules } = useStudio.getState();
  if (selectedModules.size === 0) return;
  try {
    await navigator.clipboard.writeText(copyModules(currentFlow(), selectedModules));
  } catch {
    setRefusal({
      message: "the browser keeps the clipboard from the page",
      remedy: "press Ctrl+C",
    });
  }
}

export async function pasteClipboard(): Promise<void> {
  try {
    pasteModules(await navigator.clipboard.readText());
  } catch {
    setRefusal({
      message: "the browser keeps the clipboard from the page",
      remedy: "press Ctrl+V",
    });
  }
}

/** Pastes modules from text, offset from where they were copied. */
export function pasteModules(text: string): void {
  const { specs } = useStudio.getState();
  const offset = { x: PASTE_OFFSET, y: PASTE_OFFSET };
  let ids: ReadonlySet<string> = new Set();
  const isPasted = edit("paste", (flow) => {
    const pasted = pasteText(flow, specs, text, offset);
    ids = pasted.ids;
    return pasted.flow;
  });
  if (isPasted) revealModules(ids);
}
