// Automatic layout of modules that have no position: left to right, by dagre.

import { graphlib, layout } from "@dagrejs/dagre";
import type { Flow } from "../../document/flow";
import { groupsOf } from "../../document/groups";
import { sameJson } from "../../document/json";
import { type Position, positionsOf } from "../../document/layout";
import { moduleJson } from "../../document/writeDocument";

/** Size of a module's card in pixels; must match canvas.css. */
export const CARD_SIZE = { width: 192, height: 76 } as const;

/** Largest flow laid out by dagre; it takes too long for larger ones, which get rows. */
const DAGRE_MODULES_MAX = 1500;
const CARDS_PER_ROW = 40;
/** Space between cards in pixels. */
export const CARD_GAP = { x: 104, y: 28 } as const;

/** Automatic positions of all modules; a long flow is folded to an aspect, width to height. */
export function autoLayout(flow: Flow, aspect = ASPECT): ReadonlyMap<string, Position> {
  if (flow.modules.length > DAGRE_MODULES_MAX) return layOutInRows(flow);
  const groups = groupsOf(flow);
  const graph = new graphlib.Graph({ multigraph: true, compound: true });
  const nodesep = groups.length === 0 ? CARD_GAP.y : CARD_GAP.y * 2;
  graph.setGraph({ rankdir: "LR", nodesep, ranksep: CARD_GAP.x });
  graph.setDefaultEdgeLabel(() => ({}));
  // Nodes are numbered: dagre's objects could not hold a module called `__proto__`.
  const numbers = new Map(flow.modules.map(({ id }, number) => [id, String(number)]));
  for (const number of numbers.values()) graph.setNode(number, { ...CARD_SIZE });
  flow.queues.forEach(({ from, to }, number) => {
    const [producer, consumer] = [numbers.get(from), numbers.get(to)];
    if (producer === undefined || consumer === undefined) return;
    graph.setEdge(producer, consumer, {}, String(number));
  });
  for (const { position, modules } of groups) {
    graph.setNode(`group ${position}`, {});
    for (const id of modules) graph.setParent(numbers.get(id) ?? "", `group ${position}`);
  }
  layout(graph);
  const placed = [...numbers].map(([id, number]) => {
    const { x = 0, y = 0 } = graph.node(number);
    const corner = { x: x - CARD_SIZE.width / 2, y: y - CARD_SIZE.height / 2 };
    return [id, { x: Math.round(corner.x), y: Math.round(corner.y) }] as const;
  });
  return fold(new Map(placed), aspect);
}

/** Space between the bands of a folded flow: room for the figures of the queues that lead back. */
const BAND_GAP = 3 * CARD_GAP.y;
/** Flows of fewer columns are never folded, unless the canvas is higher than wide. */
const FOLDED_COLUMNS_MIN = { wide: 9, high: 3 } as const;
/** Width to height that a folded flow comes close to. */
const ASPECT = 1.3;

/** Folds a long flow into bands, one below the other, so that it uses the canvas's height. */
function fold(
  positions: ReadonlyMap<string, Position>,
  aspect: number,
): ReadonlyMap<string, Position> {
  const columns = [...new Set([...positions.values()].map(({ x }) => x))].sort((a, b) => a - b);
  if (columns.length < FOLDED_COLUMNS_MIN[aspect < 1 ? "high" : "wide"]) return positions;
  const tops = [...positions.values()].map(({ y }) => y);
  const height = Math.max(...tops) - Math.min(...tops) + CARD_SIZE.height + BAND_GAP;
  const width = (columns.at(-1) ?? 0) - (columns[0] ?? 0) + CARD_SIZE.width;
  const bands = Math.max(Math.round(Math.sqrt(width / height / aspect)), 1);
  const size = Math.ceil(columns.length / bands);
  const folded = new Map<string, Position>();
  for (let band = 0, top = 0; band < bands; band += 1) {
    const [first, ...rest] = columns.slice(band * size, (band + 1) * size);
    if (first === undefined) break;
    const last = rest.at(-1) ?? first;
    const own = [...positions].filter(([, { x }]) => x >= first && x <= last);
    const least = Math.min(...own.map(([, { y }]) => y));
    for (const [id, { x, y }] of own) folded.set(id, { x: x - first, y: y - least + top });
    top += Math.max(...own.map(([, { y }]) => y), least) - least + CARD_SIZE.height + BAND_GAP;
  }
  return folded;
}

function layOutInRows(flow: Flow): ReadonlyMap<string, Position> {
  const step = { x: CARD_SIZE.width + CARD_GAP.x, y: CARD_SIZE.height + CARD_GAP.y };
  return new Map(
    flow.modules.map(({ id }, i) => [
      id,
      { x: (i % CARDS_PER_ROW) * step.x, y: Math.floor(i / CARDS_PER_ROW) * step.y },
    ]),
  );
}

/**
 * The position of each module: from the flow's layout, else its previous one, else automatic,
 * below all modules that have one.
 */
export function resolvePositions(
  flow: Flow,
  before: ReadonlyMap<string, Position>,
  aspect = ASPECT,
): ReadonlyMap<string, Position> {
  const fromFlow = positionsOf(flow);
  const positions = new Map<string, Position>();
  for (const { id } of flow.modules) {
    const place = fromFlow.get(id) ?? before.get(id);
    if (place !== undefined) positions.set(id, place);
  }
  const isMissing = flow.modules.some(({ id }) => !positions.has(id));
  if (!isMissing) return positions;
  const bottoms = [...positions.values()].map(({ y }) => y + CARD_SIZE.height + CARD_GAP.y);
  const top = bottoms.reduce((most, bottom) => Math.max(most, bottom), 0);
  for (const [id, { x, y }] of autoLayout(flow, aspect)) {
    if (!positions.has(id)) positions.set(id, { x, y: y + top });
  }
  return positions;
}

/** Carries the positions of renamed modules over to their new ids. */
export function carryPositions(
  positions: ReadonlyMap<string, Position>,
  before: Flow,
  now: Flow,
): ReadonlyMap<string, Position> {
  if (before.modules.length !== now.modules.length) return positions;
  const [old, ids] = [before, now].map(({ modules }) => new Set(modules.map(({ id }) => id)));
  const moved = now.modules.flatMap((module, i): (readonly [string, Position])[] => {
    const was = before.modules[i];
    if (was === undefined || old?.has(module.id) || ids?.has(was.id)) return [];
    const place = positions.get(was.id);
    const isSame = sameJson(moduleJson({ ...was, id: module.id }), moduleJson(module));
    return isSame && place !== undefined ? [[module.id, place]] : [];
  });
  return moved.length === 0 ? positions : new Map([...positions, ...moved]);
}

/**
 * Makes room for a module dropped between `from` and `to`: everything from the consumer on moves
 * right as far as needed. Returns the new module's position and all others.
 */
export function makeRoom(
  positions: ReadonlyMap<string, Position>,
  { from, to, dropped }: { from: string; to: string; dropped: Position },
): { at: Position; positions: ReadonlyMap<string, Position> } {
  const [producer, consumer] = [positions.get(from), positions.get(to)];
  if (producer === undefined || consumer === undefined) return { at: dropped, positions };
  const step = CARD_SIZE.width + CARD_GAP.x;
  const at = { x: Math.max(dropped.x, producer.x + step), y: dropped.y };
  const shift = consumer.x < producer.x ? 0 : Math.max(at.x + step - consumer.x, 0);
  const moved = [...positions].map(([id, { x, y }]) => {
    return [id, { x: x >= consumer.x ? x + shift : x, y }] as const;
  });
  return { at, positions: new Map(moved) };
}
