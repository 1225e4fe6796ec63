// Hook with the canvas's nodes and edges, derived from the store's flow and selection.

import {
  applyEdgeChanges,
  applyNodeChanges,
  type EdgeChange,
  type NodeChange,
} from "@xyflow/react";
import { useCallback, useLayoutEffect, useState } from "react";
import { select, useStudio } from "../state/studioStore";
import { decoded } from "./canvasId";
import { cardsOf, keptLines, linesOf } from "./flowGraph";
import { type CardNode, ModuleCard } from "./ModuleNode";
import { type LineEdge, QueueLine } from "./QueueEdge";

const nodeTypes = { module: ModuleCard };
const edgeTypes = { queue: QueueLine };

/**
 * Nodes, edges and change handlers for React Flow. Updated in layout effects, before the browser
 * handles the next key: React Flow computes selection changes from the nodes it has.
 */
export function useDrawn() {
  const flow = useStudio(({ history }) => history.now);
  const { specs, places, problems, modules, queues, checked } = useStudio();
  const [nodes, setNodes] = useState<CardNode[]>([]);
  useLayoutEffect(() => {
    setNodes((before) => cardsOf({ flow, specs, places, problems, modules }, before));
  }, [flow, specs, places, problems, modules]);
  const [edges, setEdges] = useState<LineEdge[]>([]);
  useLayoutEffect(() => {
    setEdges((before) => keptLines(linesOf(flow, specs, queues, checked), before));
  }, [flow, specs, queues, checked]);
  const onNodesChange = useCallback((changes: NodeChange<CardNode>[]) => {
    setNodes((before) => applyNodeChanges(changes.filter(isOwn), before));
    selectCards(changes);
  }, []);
  const onEdgesChange = useCallback((changes: EdgeChange<LineEdge>[]) => {
    setEdges((before) => applyEdgeChanges(changes.filter(isOwn), before));
    selectLines(changes);
  }, []);
  return { nodes, edges, nodeTypes, edgeTypes, onNodesChange, onEdgesChange };
}

/**
 * Changes that React Flow's own state takes: sizes and drag positions. Selection belongs to the
 * store, but must be applied at once: React Flow reports only differences from what it has.
 */
function isOwn({ type }: NodeChange<CardNode> | EdgeChange<LineEdge>): boolean {
  return type === "dimensions" || type === "position" || type === "select";
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
