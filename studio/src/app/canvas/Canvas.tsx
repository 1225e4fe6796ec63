// The canvas: modules as nodes, queues as edges. Renders the store's flow and changes it by edits;
// only node sizes and the positions during a drag are its own.

import {
  type Connection,
  Controls,
  type Edge,
  MiniMap,
  type NodeChange,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
  useStoreApi,
} from "@xyflow/react";
import { useCallback, useEffect } from "react";
import { whyNot } from "../../document/check";
import { attach, queueBetween } from "../../document/edits";
import type { Flow, Queue } from "../../document/flow";
import type { Problem } from "../../document/problem";
import { CARD } from "../state/autoLayout";
import { connect, edit, move, refuse, useStudio } from "../state/studioStore";
import { decoded } from "./canvasId";
import { dropCard, useDrop } from "./dropModule";
import type { CardNode } from "./ModuleNode";
import { useDrawn } from "./useFlowGraph";
import { FIT, Paper, useSight, useWhole } from "./Viewport";

/** Up to this size all nodes are rendered, so that Tab reaches them; above, only visible ones. */
const ALL_MODULES_MAX = 500;
/** Smallest flow that shows the minimap. */
const MAP_MODULES_MIN = 12;
const MAP_SIZE = { width: 150, height: 100 };

export function Canvas() {
  return (
    <ReactFlowProvider>
      <Drawing />
    </ReactFlowProvider>
  );
}

function Drawing() {
  const flow = useStudio(({ history }) => history.now);
  const { onNodesChange, ...drawn } = useDrawn();
  const { onDrop, onDragOver } = useDrop();
  useInView();
  useWhole();
  useSight();
  const onChange = useCallback(
    (changes: NodeChange<CardNode>[]) => {
      onNodesChange(changes);
      moveCards(changes);
    },
    [onNodesChange],
  );
  return (
    <ReactFlow
      className="canvas"
      {...drawn}
      onNodesChange={onChange}
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

/** Fits the view when a revealed module lies outside of it. */
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
    // The canvas has the new nodes one frame later.
    const frame = requestAnimationFrame(() => void fitView(FIT));
    return () => cancelAnimationFrame(frame);
  }, [sought, fitView, getViewport, canvas]);
}

/** The ends of an edge, with encoded ids. */
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

function moveCards(changes: readonly NodeChange<CardNode>[]): void {
  const moved = changes.flatMap((change) =>
    change.type === "position" && change.dragging !== true && change.position
      ? [[decoded(change.id), change.position] as const]
      : [],
  );
  if (moved.length > 0) move(new Map(moved));
}
