// The canvas: modules as nodes, queues as edges. Renders the store's flow and changes it by edits;
// only node sizes and the positions during a drag are its own.

import {
  type Connection,
  type Edge,
  type NodeChange,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
  useStoreApi,
} from "@xyflow/react";
import { type MouseEvent, useCallback, useEffect } from "react";
import { attachProblem } from "../../document/check";
import { attach, queueBetween } from "../../document/edits";
import type { Flow, Queue } from "../../document/flow";
import type { Problem } from "../../document/problem";
import { CARD_SIZE } from "../state/autoLayout";
import {
  edit,
  moveModules,
  setConnecting,
  setRefusal,
  setSelection,
  useStudio,
} from "../state/studioStore";
import { useView } from "../state/viewStore";
import { CanvasBar } from "./CanvasBar";
import { decodeId } from "./canvasId";
import { endNodeDrag, useModuleDrop } from "./dropModule";
import { type CanvasNode, groupPositionOf } from "./groupNodes";
import type { FlowNode } from "./ModuleNode";
import { useFlowGraph } from "./useFlowGraph";
import { CanvasBackground, FIT_OPTIONS, useFitOnLoad, useTrackViewport } from "./Viewport";

/** Up to this size all nodes are rendered, so that Tab reaches them; above, only visible ones. */
const RENDER_ALL_MODULES_MAX = 500;

export function Canvas() {
  return (
    <ReactFlowProvider>
      <div className="canvas-area">
        <FlowCanvas />
        <CanvasBar />
      </div>
    </ReactFlowProvider>
  );
}

function FlowCanvas() {
  const flow = useStudio(({ history }) => history.now);
  const { onNodesChange, ...graph } = useFlowGraph();
  const { onDrop, onDragOver } = useModuleDrop();
  const zoomClass = useView(({ isZoomedOut, isDistant }) =>
    isDistant ? "far distant" : isZoomedOut ? "far" : "",
  );
  useReveal();
  useFitOnLoad();
  useTrackViewport();
  const onChange = useCallback(
    (changes: NodeChange<CanvasNode>[]) => moveNodes(onNodesChange(changes)),
    [onNodesChange],
  );
  return (
    <ReactFlow
      className={`canvas ${zoomClass}`}
      {...graph}
      onNodesChange={onChange}
      onNodeClick={selectAlone}
      onNodeDragStop={endNodeDrag}
      onConnect={attachPorts}
      onConnectStart={(_, { nodeId, handleId, handleType }) =>
        setConnecting({
          id: decodeId(nodeId ?? ""),
          port: decodePort(handleId),
          direction: handleType === "source" ? "outputs" : "inputs",
        })
      }
      onConnectEnd={(_, { fromHandle, toHandle, isValid }) => {
        setConnecting(undefined);
        if (isValid !== false || !fromHandle || !toHandle) return;
        const [from, to] =
          fromHandle.type === "source" ? [fromHandle, toHandle] : [toHandle, fromHandle];
        const [sourceHandle, targetHandle] = [from.id ?? null, to.id ?? null];
        setRefusal(
          connectionProblem({ source: from.nodeId, sourceHandle, target: to.nodeId, targetHandle }),
        );
      }}
      isValidConnection={(ends) => connectionProblem(ends) === undefined}
      onDrop={onDrop}
      onDragOver={onDragOver}
      deleteKeyCode={null}
      multiSelectionKeyCode={["Shift", "Control", "Meta"]}
      selectionKeyCode="Shift"
      onlyRenderVisibleElements={flow.modules.length > RENDER_ALL_MODULES_MAX}
      minZoom={0.05}
    >
      <CanvasBackground />
      {flow.modules.length === 0 && (
        <p className="hint">
          Drag a module here, or double-click one.
          <br />A flow can also be opened, pasted, or written beside as code; New… has some to begin
          with.
        </p>
      )}
    </ReactFlow>
  );
}

/** Space in pixels that a revealed module has to the edge of the canvas. */
const REVEAL_MARGIN = 24;

/** Fits the view when a revealed module lies outside of it, or at its edge. */
function useReveal(): void {
  const { fitView, getViewport } = useReactFlow();
  const canvas = useStoreApi();
  const revealed = useStudio(({ revealed }) => revealed);
  useEffect(() => {
    const { width, height } = canvas.getState();
    const { x, y, zoom } = getViewport();
    const isVisible = (id: string) => {
      const position = useStudio.getState().positions.get(id) ?? { x: 0, y: 0 };
      const [left, top] = [position.x * zoom + x, position.y * zoom + y];
      const [right, bottom] = [left + CARD_SIZE.width * zoom, top + CARD_SIZE.height * zoom];
      const isInside = (from: number, to: number, size: number) =>
        from >= REVEAL_MARGIN && to <= size - REVEAL_MARGIN;
      return isInside(left, right, width) && isInside(top, bottom, height);
    };
    if ([...revealed].every(isVisible)) return;
    // The canvas has the new nodes one frame later.
    const frame = requestAnimationFrame(() => void fitView(FIT_OPTIONS));
    return () => cancelAnimationFrame(frame);
  }, [revealed, fitView, getViewport, canvas]);
}

/** The ends of an edge, with encoded ids. */
type EdgeEnds = Pick<Edge, "source" | "sourceHandle" | "target" | "targetHandle">;

function toQueue(flow: Flow, { source, sourceHandle, target, targetHandle }: EdgeEnds): Queue {
  const from = { id: decodeId(source), port: decodePort(sourceHandle) };
  const to = { id: decodeId(target), port: decodePort(targetHandle) };
  return queueBetween(flow, useStudio.getState().specs, from, to);
}

function decodePort(handle: string | null | undefined): string | undefined {
  return handle === null || handle === undefined ? undefined : decodeId(handle);
}

function connectionProblem(ends: EdgeEnds): Problem | undefined {
  const { history, specs } = useStudio.getState();
  return attachProblem(history.now, specs, toQueue(history.now, ends));
}

/** A click on one of several selected modules selects it alone; React Flow would keep all. */
function selectAlone(event: MouseEvent, { id }: CanvasNode): void {
  const isAdding = event.shiftKey || event.ctrlKey || event.metaKey;
  if (isAdding || groupPositionOf(id) !== undefined) return;
  if (useStudio.getState().selectedModules.size > 1) setSelection(new Set([decodeId(id)]));
}

function attachPorts(ends: Connection): void {
  const { specs } = useStudio.getState();
  edit("attach", (flow) => attach(flow, specs, toQueue(flow, ends)));
}

function moveNodes(changes: readonly NodeChange<FlowNode>[]): void {
  const moved = changes.flatMap((change) =>
    change.type === "position" && change.dragging !== true && change.position
      ? [[decodeId(change.id), change.position] as const]
      : [],
  );
  if (moved.length > 0) moveModules(new Map(moved));
}
