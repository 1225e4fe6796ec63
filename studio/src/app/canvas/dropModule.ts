// Drag and drop onto the canvas: new modules from the palette, and unattached ones onto queues.

import { type Node, useReactFlow } from "@xyflow/react";
import type { DragEvent } from "react";
import { splice } from "../../document/edits";
import { CARD } from "../state/autoLayout";
import { edit, settle, useStudio } from "../state/studioStore";
import { decoded } from "./canvasId";
import { add, addInto } from "./editCommands";

/** MIME type of a module that is dragged from the palette; the data is its name. */
export const MODULE_TYPE = "application/x-euphrates-module";

/** Handles modules dropped from the palette: onto a queue, or onto the background. */
export function useDrop() {
  const { screenToFlowPosition } = useReactFlow();
  const onDragOver = (event: DragEvent) => {
    if (!event.dataTransfer.types.includes(MODULE_TYPE)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
  };
  const onDrop = (event: DragEvent) => {
    const module = event.dataTransfer.getData(MODULE_TYPE);
    if (module === "") return;
    event.preventDefault();
    const { x, y } = screenToFlowPosition({ x: event.clientX, y: event.clientY });
    const position = { x: x - CARD.width / 2, y: y - CARD.height / 2 };
    const queue = queueUnder(event);
    if (queue === undefined) add(module, position);
    else addInto(module, queue, position);
  };
  return { onDrop, onDragOver };
}

/** Ends a drag; an unattached module dropped on a queue is spliced into it. */
export function dropCard(
  event: { clientX: number; clientY: number } | TouchEvent,
  card: Node,
): void {
  settle();
  const queue = "clientX" in event ? queueUnder(event) : undefined;
  const { history, specs } = useStudio.getState();
  const id = decoded(card.id);
  const isFree = history.now.queues.every(({ from, to }) => from !== id && to !== id);
  if (queue === undefined || !isFree) return;
  edit(`put ${id} in a queue`, (flow) => splice(flow, specs, queue, id));
}

function queueUnder({
  clientX,
  clientY,
}: {
  clientX: number;
  clientY: number;
}): number | undefined {
  const under = document.elementsFromPoint(clientX, clientY);
  const line = under.map((element) => element.closest(".react-flow__edge")).find(Boolean);
  const id = line?.getAttribute("data-id");
  return id ? Number(id) : undefined;
}
