// The boxes of groups on the canvas, from the cards of their modules: a box around them, or one
// card in their place while the group is folded.

import { type Node, type NodeChange, Position as Side } from "@xyflow/react";
import type { Group } from "../../document/groups";
import type { Position } from "../../document/layout";
import { CARD_SIZE } from "../state/autoLayout";
import { encodeId } from "./canvasId";
import type { FlowNode } from "./ModuleNode";
import type { FlowEdge } from "./QueueEdge";

export interface GroupNodeData extends Record<string, unknown> {
  readonly group: Group;
  /** The text of a problem of one of its modules, shown while it is folded. */
  readonly problem: string | undefined;
}

export type GroupNode = Node<GroupNodeData, "box" | "folded">;
export type CanvasNode = FlowNode | GroupNode;

const PADDING = 18;
const TITLE_HEIGHT = 32;
const LINE_HEIGHT = 16;
/** Mean width of a letter of the note, in pixels. */
const LETTER_WIDTH = 6.2;
const LINES_MAX = 6;
export const FOLDED_SIZE = { width: 208, height: CARD_SIZE.height } as const;
/** Below all cards and queues, also while selected, which adds 1000. */
const BEHIND = -2000;

/** A rectangle by its upper left corner. */
export interface Box extends Position {
  readonly width: number;
  readonly height: number;
}

/** The box around cards at some corners, with room for title and note. */
export function boxAround(corners: readonly Position[], note: string): Box {
  const [left, top] = [
    Math.min(...corners.map(({ x }) => x)),
    Math.min(...corners.map(({ y }) => y)),
  ];
  const [right, bottom] = [
    Math.max(...corners.map(({ x }) => x)) + CARD_SIZE.width,
    Math.max(...corners.map(({ y }) => y)) + CARD_SIZE.height,
  ];
  const width = right - left + 2 * PADDING;
  const head = TITLE_HEIGHT + noteLines(note, width) * LINE_HEIGHT + (note === "" ? 0 : 6);
  return { x: left - PADDING, y: top - head, width, height: bottom - top + head + PADDING };
}

function noteLines(note: string, width: number): number {
  if (note === "") return 0;
  const fitting = Math.floor((width - 2 * PADDING) / LETTER_WIDTH);
  const lines = note.split("\n").map((line) => Math.max(Math.ceil(line.length / fitting), 1));
  return Math.min(
    lines.reduce((sum, one) => sum + one, 0),
    LINES_MAX,
  );
}

function nodeId(position: number): string {
  // No encoded id of a module has letters beyond `f` between its dashes.
  return `-group-${position}`;
}

/** The position of the group that a node stands for; undefined for a module's. */
export function groupPositionOf(id: string): number | undefined {
  const [, position] = /^-group-(\d+)$/.exec(id) ?? [];
  return position === undefined ? undefined : Number(position);
}

/** The nodes and edges that are drawn: with boxes, and without what is folded away. */
export function withGroups(
  nodes: FlowNode[],
  edges: FlowEdge[],
  groups: readonly Group[],
): { nodes: CanvasNode[]; edges: FlowEdge[] } {
  if (groups.length === 0) return { nodes, edges };
  const known = new Map(nodes.map((node) => [node.id, node]));
  const foldedInto = new Map<string, string>();
  const boxes = groups.flatMap((group) => {
    const members = group.modules.flatMap((id) => known.get(encodeId(id)) ?? []);
    if (members.length === 0) return [];
    const box = toGroupNode(group, members);
    if (group.isFolded) for (const { id } of members) foldedInto.set(id, box.id);
    return [box];
  });
  return {
    nodes: [...boxes, ...nodes.filter(({ id }) => !foldedInto.has(id))],
    edges: edges.flatMap((edge) => foldedEdge(edge, foldedInto)),
  };
}

function toGroupNode(group: Group, members: readonly FlowNode[]): GroupNode {
  const box = boxOf(group, members);
  const size = { width: box.width, height: box.height };
  const count = group.modules.length;
  return {
    id: nodeId(group.position),
    type: group.isFolded ? "folded" : "box",
    data: { group, problem: members.map(({ data }) => data.problem).find(Boolean) },
    position: { x: box.x, y: box.y },
    ...size,
    measured: size,
    handles: [
      { id: "in", type: "target", position: Side.Left, x: 0, y: size.height / 2 },
      { id: "out", type: "source", position: Side.Right, x: size.width, y: size.height / 2 },
    ],
    selected: members.every(({ selected }) => selected),
    connectable: false,
    ariaLabel: `group ${group.name} of ${count} modules${group.isFolded ? ", folded" : ""}`,
    // The background stays the canvas's: what lies in the box can be drawn around and moved.
    ...(group.isFolded
      ? {}
      : { zIndex: BEHIND, dragHandle: ".group-head", style: { pointerEvents: "none" } }),
  };
}

function boxOf(group: Group, members: readonly FlowNode[]): Box {
  const box = boxAround(
    members.map(({ position }) => position),
    group.note,
  );
  if (!group.isFolded) return box;
  const top = Math.min(...members.map(({ position }) => position.y));
  return { x: box.x + PADDING, y: top, ...FOLDED_SIZE };
}

/** An edge at the card of a folded group; none if both ends are in it. */
function foldedEdge(edge: FlowEdge, foldedInto: ReadonlyMap<string, string>): readonly FlowEdge[] {
  const [from, to] = [foldedInto.get(edge.source), foldedInto.get(edge.target)];
  if (from === undefined && to === undefined) return [edge];
  if (from === to) return [];
  const source = from === undefined ? {} : { source: from, sourceHandle: "out" };
  const target = to === undefined ? {} : { target: to, targetHandle: "in" };
  return [{ ...edge, ...source, ...target }];
}

/** Changes of modules, with those of the modules of groups that are moved. */
export function memberChanges(
  changes: readonly NodeChange<CanvasNode>[],
  nodes: readonly FlowNode[],
  groups: readonly Group[],
): NodeChange<FlowNode>[] {
  const positionIn = (change: NodeChange<CanvasNode>) =>
    "id" in change ? groupPositionOf(change.id) : undefined;
  const own = changes.filter((change) => positionIn(change) === undefined);
  const moved = new Set(own.flatMap((change) => (change.type === "position" ? [change.id] : [])));
  const members = changes.flatMap((change): readonly NodeChange<FlowNode>[] => {
    const group = groups.find(({ position }) => position === positionIn(change));
    if (group === undefined || change.type !== "position" || !change.position) return [];
    const { position: to, dragging = false } = change;
    const ids = new Set(group.modules.map(encodeId));
    const cards = nodes.filter(({ id }) => ids.has(id));
    const box = boxOf(group, cards);
    return cards
      .filter(({ id }) => !moved.has(id))
      .map(({ id, position: { x, y } }) => {
        const position = { x: x + to.x - box.x, y: y + to.y - box.y };
        return { id, type: "position", position, dragging };
      });
  });
  return [...(own as NodeChange<FlowNode>[]), ...members];
}
