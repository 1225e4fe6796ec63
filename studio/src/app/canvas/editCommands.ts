// Commands that edit the flow: place, splice, delete, copy and paste modules.

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
import { type Position, withPositions } from "../../document/layout";
import { CARD, GAP, withRoom } from "../state/autoLayout";
import { edit, flowNow, refuse, seek, useStudio } from "../state/studioStore";

/** Distance of a paste from its source, and of stacked modules, in pixels. */
const PASTE_OFFSET = 32;

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

export function remove(): void {
  const { modules, queues } = useStudio.getState();
  if (modules.size === 0 && queues.size === 0) return;
  edit("delete", (flow) => removeModules(detach(flow, queues), modules));
}

export async function copyText(): Promise<void> {
  const { modules } = useStudio.getState();
  if (modules.size === 0) return;
  try {
    await navigator.clipboard.writeText(copy(flowNow(), modules));
  } catch {
    refuse({ message: "the browser keeps the clipboard from the page", remedy: "press Ctrl+C" });
  }
}

export async function pasteText(): Promise<void> {
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
