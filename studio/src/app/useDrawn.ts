// What the canvas draws of the store's flow, and who is selected there.

import {
  applyEdgeChanges,
  applyNodeChanges,
  type EdgeChange,
  type NodeChange,
} from "@xyflow/react";
import { useCallback, useLayoutEffect, useState } from "react";
import { decoded } from "./canvasId";
import { cardsOf, keptLines, linesOf } from "./drawn";
import { type CardNode, ModuleCard } from "./ModuleCard";
import { type LineEdge, QueueLine } from "./QueueLine";
import { select, useStudio } from "./studio";

const nodeTypes = { module: ModuleCard };
const edgeTypes = { queue: QueueLine };

/**
 * Cards and lines, as the canvas takes them. It has them before the browser goes on to the next
 * key: it works out itself whom that selects, and who is selected no more.
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
 * Sizes, and places while they are dragged, are the canvas's own. What is selected is the store's,
 * but the canvas must know of it at once: it tells only what is different from what it knows.
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
