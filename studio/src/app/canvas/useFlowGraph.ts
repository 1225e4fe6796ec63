// Hook with the canvas's nodes and edges, derived from the store's flow and selection.

import {
  applyEdgeChanges,
  applyNodeChanges,
  type EdgeChange,
  type NodeChange,
} from "@xyflow/react";
import { useCallback, useLayoutEffect, useMemo, useRef, useState } from "react";
import { type Group, groupsOf } from "../../document/groups";
import { setSelection, useStudio } from "../state/studioStore";
import { decodeId } from "./canvasId";
import { reuseEdges, toEdges, toNodes } from "./flowGraph";
import { FoldedGroup, GroupBox } from "./GroupBox";
import { type CanvasNode, groupPositionOf, memberChanges, withGroups } from "./groupNodes";
import { type FlowNode, ModuleNode } from "./ModuleNode";
import { type FlowEdge, QueueEdge } from "./QueueEdge";

const nodeTypes = { module: ModuleNode, box: GroupBox, folded: FoldedGroup };
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
  const groups = useMemo(() => groupsOf(flow), [flow]);
  const drawn = useMemo(() => withGroups(nodes, edges, groups), [nodes, edges, groups]);
  const rendered = useRef({ nodes, groups });
  rendered.current = { nodes, groups };
  /** Returns the changes of modules, among them those of modules whose group is moved. */
  const onNodesChange = useCallback((changes: NodeChange<CanvasNode>[]) => {
    const { nodes, groups } = rendered.current;
    const ofModules = memberChanges(changes, nodes, groups);
    setNodes((before) => applyNodeChanges(ofModules.filter(isOwnState), before));
    applyNodeSelection(changes, groups);
    return ofModules;
  }, []);
  const onEdgesChange = useCallback((changes: EdgeChange<FlowEdge>[]) => {
    setEdges((before) => applyEdgeChanges(changes.filter(isOwnState), before));
    applyEdgeSelection(changes);
  }, []);
  return { ...drawn, nodeTypes, edgeTypes, onNodesChange, onEdgesChange };
}

/**
 * Changes that React Flow's own state takes: sizes and drag positions. Selection belongs to the
 * store, but must be applied at once: React Flow reports only differences from what it has.
 */
function isOwnState({ type }: NodeChange<FlowNode> | EdgeChange<FlowEdge>): boolean {
  return type === "dimensions" || type === "position" || type === "select";
}

/**
 * A group is selected when all of its modules are. While they are drawn, React Flow reports what is
 * deselected of them itself.
 */
function applyNodeSelection(
  changes: readonly NodeChange<CanvasNode>[],
  groups: readonly Group[],
): void {
  const { selectedModules, selectedQueues } = useStudio.getState();
  const selected = new Set(selectedModules);
  const changed = changes.filter((change) => change.type === "select");
  for (const { id, selected: is } of changed) {
    if (groupPositionOf(id) !== undefined) continue;
    if (is) selected.add(decodeId(id));
    else selected.delete(decodeId(id));
  }
  for (const { id, selected: is } of changed) {
    const group = groups.find(({ position }) => position === groupPositionOf(id));
    for (const member of group?.modules ?? []) {
      if (is) selected.add(member);
      else if (group?.isFolded) selected.delete(member);
    }
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
