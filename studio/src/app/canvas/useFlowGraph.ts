// Hook with the canvas's nodes and edges, derived from the store's flow and selection.

import {
  applyEdgeChanges,
  applyNodeChanges,
  type EdgeChange,
  type NodeChange,
} from "@xyflow/react";
import { useCallback, useLayoutEffect, useState } from "react";
import { setSelection, useStudio } from "../state/studioStore";
import { decodeId } from "./canvasId";
import { reuseEdges, toEdges, toNodes } from "./flowGraph";
import { type FlowNode, ModuleNode } from "./ModuleNode";
import { type FlowEdge, QueueEdge } from "./QueueEdge";

const nodeTypes = { module: ModuleNode };
const edgeTypes = { queue: QueueEdge };

/**
 * Nodes, edges and change handlers for React Flow. Updated in layout effects, before the browser
 * handles the next key: React Flow computes selection changes from the nodes it has.
 */
export function useFlowGraph() {
  const flow = useStudio(({ history }) => history.now);
  const { specs, positions, problems, selectedModules, selectedQueues, engineCheck } = useStudio();
  const [nodes, setNodes] = useState<FlowNode[]>([]);
  useLayoutEffect(() => {
    setNodes((before) => toNodes({ flow, specs, positions, problems, selectedModules }, before));
  }, [flow, specs, positions, problems, selectedModules]);
  const [edges, setEdges] = useState<FlowEdge[]>([]);
  useLayoutEffect(() => {
    setEdges((before) => reuseEdges(toEdges(flow, specs, selectedQueues, engineCheck), before));
  }, [flow, specs, selectedQueues, engineCheck]);
  const onNodesChange = useCallback((changes: NodeChange<FlowNode>[]) => {
    setNodes((before) => applyNodeChanges(changes.filter(isOwnState), before));
    applyNodeSelection(changes);
  }, []);
  const onEdgesChange = useCallback((changes: EdgeChange<FlowEdge>[]) => {
    setEdges((before) => applyEdgeChanges(changes.filter(isOwnState), before));
    applyEdgeSelection(changes);
  }, []);
  return { nodes, edges, nodeTypes, edgeTypes, onNodesChange, onEdgesChange };
}

/**
 * Changes that React Flow's own state takes: sizes and drag positions. Selection belongs to the
 * store, but must be applied at once: React Flow reports only differences from what it has.
 */
function isOwnState({ type }: NodeChange<FlowNode> | EdgeChange<FlowEdge>): boolean {
  return type === "dimensions" || type === "position" || type === "select";
}

function applyNodeSelection(changes: readonly NodeChange<FlowNode>[]): void {
  const { selectedModules, selectedQueues } = useStudio.getState();
  const selected = new Set(selectedModules);
  const changed = changes.filter((change) => change.type === "select");
  for (const { id, selected: is } of changed) {
    if (is) selected.add(decodeId(id));
    else selected.delete(decodeId(id));
  }
  if (changed.length > 0) setSelection(selected, selectedQueues);
}

function applyEdgeSelection(changes: readonly EdgeChange<FlowEdge>[]): void {
  const { selectedModules, selectedQueues } = useStudio.getState();
  const selected = new Set(selectedQueues);
  const changed = changes.filter((change) => change.type === "select");
  for (const { id, selected: is } of changed) {
    if (is) selected.add(Number(id));
    else selected.delete(Number(id));
  }
  if (changed.length > 0) setSelection(selectedModules, selected);
}
