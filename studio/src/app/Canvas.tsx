// The drawing: modules as cards, queues as lines. It shows the flow of the store and changes it by
// edits; only sizes and what is being dragged are its own.

import {
  applyEdgeChanges,
  applyNodeChanges,
  Background,
  type Connection,
  Controls,
  type Edge,
  type EdgeChange,
  MiniMap,
  type Node,
  type NodeChange,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
  useStoreApi,
} from "@xyflow/react";
import { type DragEvent, useCallback, useEffect, useState } from "react";
import { whyNot } from "../document/check";
import { attach, queueBetween, splice } from "../document/edits";
import type { Flow, Queue } from "../document/flow";
import type { Problem } from "../document/problem";
import { add, addInto } from "./actions";
import { CARD } from "./autolayout";
import { decoded } from "./canvasId";
import { cardsOf, keptLines, linesOf } from "./drawn";
import { useLive } from "./live";
import { type CardNode, ModuleCard } from "./ModuleCard";
import { type LineEdge, QueueLine } from "./QueueLine";
import { connect, edit, move, refuse, select, settle, useStudio } from "./studio";
import { showPart, useView } from "./view";

/** What the palette drags. */
export const MODULE_TYPE = "application/x-euphrates-module";
/** Up to so many, all cards are there for the keyboard to go to; of more, those in view. */
const ALL_MODULES_MAX = 500;
const NODE_TYPES = { module: ModuleCard };
const EDGE_TYPES = { queue: QueueLine };
/** Flows of fewer modules are seen without a map of them. */
const MAP_MODULES_MIN = 12;
const FIT = { maxZoom: 1, padding: 0.08 };
const MAP_SIZE = { width: 150, height: 100 };

export function Canvas() {
  return (
    <ReactFlowProvider>
      <Drawing />
    </ReactFlowProvider>
  );
}

function Drawing() {
  const history = useStudio(({ history }) => history);
  const { specs, places, problems, modules, queues, checked } = useStudio();
  const flow = history.now;
  const [nodes, setNodes] = useState<CardNode[]>([]);
  useEffect(() => {
    setNodes((before) => cardsOf({ flow, specs, places, problems, modules }, before));
  }, [flow, specs, places, problems, modules]);
  const [edges, setEdges] = useState<LineEdge[]>([]);
  useEffect(() => {
    setEdges((before) => keptLines(linesOf(flow, specs, queues, checked), before));
  }, [flow, specs, queues, checked]);
  const { onDrop, onDragOver } = useDrop();
  useInView();
  useWhole();
  useSight();
  const onNodesChange = useCallback((changes: NodeChange<CardNode>[]) => {
    setNodes((before) => applyNodeChanges(changes.filter(isOwn), before));
    moveCards(changes);
    selectCards(changes);
  }, []);
  const onEdgesChange = useCallback((changes: EdgeChange<LineEdge>[]) => {
    setEdges((before) => applyEdgeChanges(changes.filter(isOwn), before));
    selectLines(changes);
  }, []);
  return (
    <ReactFlow
      className="canvas"
      nodes={nodes}
      edges={edges}
      nodeTypes={NODE_TYPES}
      edgeTypes={EDGE_TYPES}
      onNodesChange={onNodesChange}
      onEdgesChange={onEdgesChange}
      onNodeDragStop={dropCard}
      onConnect={attachPorts}
      onConnectStart={(_, { nodeId, handleId, handleType }) =>
        connect({
          id: decoded(nodeId ?? ""),
          port: portOf(handleId),
          direction: handleType === "source" ? "outputs" : "inputs",
        })
      }
      onConnectEnd={(_, { fromHandle, toHandle, isValid }) => {
        connect(undefined);
        if (isValid !== false || !fromHandle || !toHandle) return;
        const [from, to] =
          fromHandle.type === "source" ? [fromHandle, toHandle] : [toHandle, fromHandle];
        const [sourceHandle, targetHandle] = [from.id ?? null, to.id ?? null];
        refuse(reasonOf({ source: from.nodeId, sourceHandle, target: to.nodeId, targetHandle }));
      }}
      isValidConnection={(ends) => reasonOf(ends) === undefined}
      onDrop={onDrop}
      onDragOver={onDragOver}
      deleteKeyCode={null}
      multiSelectionKeyCode={["Shift", "Control", "Meta"]}
      selectionKeyCode="Shift"
      onlyRenderVisibleElements={flow.modules.length > ALL_MODULES_MAX}
      minZoom={0.1}
      fitView
      fitViewOptions={FIT}
    >
      <Paper />
      {flow.modules.length === 0 && (
        <p className="hint">
          Drag a module here, or double-click one.
          <br />A flow can also be opened, pasted, or written beside as code; New… has some to begin
          with.
        </p>
      )}
      <Controls showInteractive={false} />
      {flow.modules.length >= MAP_MODULES_MIN && (
        <MiniMap pannable zoomable style={MAP_SIZE} ariaLabel="The whole flow, small" />
      )}
    </ReactFlow>
  );
}

/** Dots to see distances by; from far they are many, close, and no help. */
function Paper() {
  return useView(({ isFar }) => isFar) ? null : <Background gap={20} size={1} />;
}

/** Tells what of the drawing is in view. */
function useSight(): void {
  const canvas = useStoreApi();
  useEffect(() => {
    const look = () => {
      const { transform, width, height } = canvas.getState();
      showPart(transform, width, height);
    };
    look();
    return canvas.subscribe(look);
  }, [canvas]);
}

/** Shows all of the flow again when what is sought cannot be seen. */
function useInView(): void {
  const { fitView, getViewport } = useReactFlow();
  const canvas = useStoreApi();
  const sought = useStudio(({ sought }) => sought);
  useEffect(() => {
    const { width, height } = canvas.getState();
    const { x, y, zoom } = getViewport();
    const isSeen = (id: string) => {
      const place = useStudio.getState().places.get(id) ?? { x: 0, y: 0 };
      const [left, top] = [place.x * zoom + x, place.y * zoom + y];
      const [right, bottom] = [left + CARD.width * zoom, top + CARD.height * zoom];
      return left >= 0 && top >= 0 && right <= width && bottom <= height;
    };
    if ([...sought].every(isSeen)) return;
    // A frame later the canvas has the cards, too.
    const frame = requestAnimationFrame(() => void fitView(FIT));
    return () => cancelAnimationFrame(frame);
  }, [sought, fitView, getViewport, canvas]);
}

/** Shows all of the flow when another was begun, and when the canvas has made room for a run. */
function useWhole(): void {
  const { fitView } = useReactFlow();
  const begun = useStudio(({ begun }) => begun);
  const hasRun = useLive(({ run }) => run !== undefined);
  // biome-ignore lint/correctness/useExhaustiveDependencies: they say when, not what
  useEffect(() => {
    const frame = requestAnimationFrame(() => void fitView(FIT));
    return () => cancelAnimationFrame(frame);
  }, [begun, hasRun, fitView]);
}

/** Drops a module from the palette: into the queue under the pointer, or where nothing is. */
function useDrop() {
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

/** Ends a drag; a card that is attached to nothing goes into the queue it is dropped on. */
function dropCard(event: { clientX: number; clientY: number } | TouchEvent, card: Node): void {
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

/** The ends of a queue, as the canvas names them. */
type Ends = Pick<Edge, "source" | "sourceHandle" | "target" | "targetHandle">;

function queueOf(flow: Flow, { source, sourceHandle, target, targetHandle }: Ends): Queue {
  const from = { id: decoded(source), port: portOf(sourceHandle) };
  const to = { id: decoded(target), port: portOf(targetHandle) };
  return queueBetween(flow, useStudio.getState().specs, from, to);
}

function portOf(handle: string | null | undefined): string | undefined {
  return handle === null || handle === undefined ? undefined : decoded(handle);
}

function reasonOf(ends: Ends): Problem | undefined {
  const { history, specs } = useStudio.getState();
  return whyNot(history.now, specs, queueOf(history.now, ends));
}

function attachPorts(ends: Connection): void {
  const { specs } = useStudio.getState();
  edit("attach", (flow) => attach(flow, specs, queueOf(flow, ends)));
}

/**
 * Sizes, and places while they are dragged, are the canvas's own. What is selected is the store's,
 * but the canvas must know of it at once: it tells only what is different from what it knows.
 */
function isOwn({ type }: NodeChange<CardNode> | EdgeChange<LineEdge>): boolean {
  return type === "dimensions" || type === "position" || type === "select";
}

function moveCards(changes: readonly NodeChange<CardNode>[]): void {
  const moved = changes.flatMap((change) =>
    change.type === "position" && change.dragging !== true && change.position
      ? [[decoded(change.id), change.position] as const]
      : [],
  );
  if (moved.length > 0) move(new Map(moved));
}

function selectCards(changes: readonly NodeChange<CardNode>[]): void {
  const { modules, queues } = useStudio.getState();
  const selected = new Set(modules);
  const changed = changes.filter((change) => change.type === "select");
  for (const { id, selected: is } of changed) {
    if (is) selected.add(decoded(id));
    else selected.delete(decoded(id));
  }
  if (changed.length > 0) select(selected, queues);
}

function selectLines(changes: readonly EdgeChange<LineEdge>[]): void {
  const { modules, queues } = useStudio.getState();
  const selected = new Set(queues);
  const changed = changes.filter((change) => change.type === "select");
  for (const { id, selected: is } of changed) {
    if (is) selected.add(Number(id));
    else selected.delete(Number(id));
  }
  if (changed.length > 0) select(modules, selected);
}
