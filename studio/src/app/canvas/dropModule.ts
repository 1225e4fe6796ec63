// Drag and drop onto the canvas: new modules from the palette, and unattached ones onto queues.

import { type Node, useReactFlow } from "@xyflow/react";
import type { DragEvent } from "react";
import { splice } from "../../document/edits";
import { CARD_SIZE } from "../state/autoLayout";
import { edit, endStep, useStudio } from "../state/studioStore";
import { decodeId } from "./canvasId";
import { addDataFile, addModule, addModuleToQueue } from "./editCommands";
import { groupPositionOf } from "./groupNodes";

/** MIME type of a module that is dragged from the palette; the data is its name. */
export const MODULE_MIME_TYPE = "application/x-euphrates-module";

/** MIME type of a data file that is dragged from the file list; the data is its path. */
export const DATA_MIME_TYPE = "application/x-euphrates-data";

/** Handles modules and data files that are dropped: onto a queue, or onto the background. */
export function useModuleDrop() {
  const { screenToFlowPosition } = useReactFlow();
  const onDragOver = (event: DragEvent) => {
    const { types } = event.dataTransfer;
    if (!types.includes(MODULE_MIME_TYPE) && !types.includes(DATA_MIME_TYPE)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
  };
  const onDrop = (event: DragEvent) => {
    const module = event.dataTransfer.getData(MODULE_MIME_TYPE);
    const file = event.dataTransfer.getData(DATA_MIME_TYPE);
    if (module === "" && file === "") return;
    event.preventDefault();
    const { x, y } = screenToFlowPosition({ x: event.clientX, y: event.clientY });
    const position = { x: x - CARD_SIZE.width / 2, y: y - CARD_SIZE.height / 2 };
    if (file !== "") return addDataFile(file, position);
    const queue = queueAt(event);
    if (queue === undefined) addModule(module, position);
    else addModuleToQueue(module, queue, position);
  };
  return { onDrop, onDragOver };
}

/** Ends a drag; an unattached module dropped on a queue is spliced into it. */
export function endNodeDrag(
  event: { clientX: number; clientY: number } | TouchEvent,
  card: Node,
): void {
  endStep();
  if (groupPositionOf(card.id) !== undefined) return;
  const queue = "clientX" in event ? queueAt(event) : undefined;
  const { history, specs } = useStudio.getState();
  const id = decodeId(card.id);
  const isFree = history.now.queues.every(({ from, to }) => from !== id && to !== id);
  if (queue === undefined || !isFree) return;
  edit(`put ${id} in a queue`, (flow) => splice(flow, specs, queue, id));
}

function queueAt({ clientX, clientY }: { clientX: number; clientY: number }): number | undefined {
  const under = document.elementsFromPoint(clientX, clientY);
  const line = under.map((element) => element.closest(".react-flow__edge")).find(Boolean);
  const id = line?.getAttribute("data-id");
  return id ? Number(id) : undefined;
}
