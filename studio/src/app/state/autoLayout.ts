// Automatic layout of modules that have no position: left to right, by dagre.

import { graphlib, layout } from "@dagrejs/dagre";
import type { Flow } from "../../document/flow";
import { sameJson } from "../../document/json";
import { type Position, positionsOf } from "../../document/layout";
import { module as moduleJson } from "../../document/writeDocument";

/** Size of a module's card in pixels; must match canvas.css. */
export const CARD = { width: 192, height: 76 } as const;

/** Largest flow laid out by dagre; it takes too long for larger ones, which get rows. */
const DAGRE_MODULES_MAX = 1500;
const ROW = 40;
/** Space between cards in pixels. */
export const GAP = { x: 104, y: 28 } as const;

/** Automatic positions of all modules. */
export function arranged(flow: Flow): ReadonlyMap<string, Position> {
  if (flow.modules.length > DAGRE_MODULES_MAX) return inRows(flow);
  const graph = new graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "LR", nodesep: GAP.y, ranksep: GAP.x });
  graph.setDefaultEdgeLabel(() => ({}));
  // Nodes are numbered: dagre's objects could not hold a module called `__proto__`.
  const numbers = new Map(flow.modules.map(({ id }, number) => [id, String(number)]));
  for (const number of numbers.values()) graph.setNode(number, { ...CARD });
  flow.queues.forEach(({ from, to }, number) => {
    const [producer, consumer] = [numbers.get(from), numbers.get(to)];
    if (producer === undefined || consumer === undefined) return;
    graph.setEdge(producer, consumer, {}, String(number));
  });
  layout(graph);
  return new Map(
    [...numbers].map(([id, number]) => {
      const { x = 0, y = 0 } = graph.node(number);
      return [id, { x: Math.round(x - CARD.width / 2), y: Math.round(y - CARD.height / 2) }];
    }),
  );
}

function inRows(flow: Flow): ReadonlyMap<string, Position> {
  const step = { x: CARD.width + GAP.x, y: CARD.height + GAP.y };
  return new Map(
    flow.modules.map(({ id }, i) => [
      id,
      { x: (i % ROW) * step.x, y: Math.floor(i / ROW) * step.y },
    ]),
  );
}

/**
 * The position of each module: from the flow's layout, else its previous one, else automatic,
 * below all modules that have one.
 */
export function located(
  flow: Flow,
  before: ReadonlyMap<string, Position>,
): ReadonlyMap<string, Position> {
  const said = positionsOf(flow);
  const places = new Map<string, Position>();
  for (const { id } of flow.modules) {
    const place = said.get(id) ?? before.get(id);
    if (place !== undefined) places.set(id, place);
  }
  const isMissing = flow.modules.some(({ id }) => !places.has(id));
  if (!isMissing) return places;
  const bottoms = [...places.values()].map(({ y }) => y + CARD.height + GAP.y);
  const top = bottoms.reduce((most, bottom) => Math.max(most, bottom), 0);
  for (const [id, { x, y }] of arranged(flow)) {
    if (!places.has(id)) places.set(id, { x, y: y + top });
  }
  return places;
}

/** Carries the positions of renamed modules over to their new ids. */
export function renamed(
  places: ReadonlyMap<string, Position>,
  before: Flow,
  now: Flow,
): ReadonlyMap<string, Position> {
  if (before.modules.length !== now.modules.length) return places;
  const [old, ids] = [before, now].map(({ modules }) => new Set(modules.map(({ id }) => id)));
  const moved = now.modules.flatMap((module, i): (readonly [string, Position])[] => {
    const was = before.modules[i];
    if (was === undefined || old?.has(module.id) || ids?.has(was.id)) return [];
    const place = places.get(was.id);
    const isSame = sameJson(moduleJson({ ...was, id: module.id }), moduleJson(module));
    return isSame && place !== undefined ? [[module.id, place]] : [];
  });
  return moved.length === 0 ? places : new Map([...places, ...moved]);
}

/**
 * Makes room for a module dropped between `from` and `to`: everything from the consumer on moves
 * right as far as needed. Returns the new module's position and all others.
 */
export function withRoom(
  places: ReadonlyMap<string, Position>,
  { from, to, dropped }: { from: string; to: string; dropped: Position },
): { at: Position; places: ReadonlyMap<string, Position> } {
  const [before, behind] = [places.get(from), places.get(to)];
  if (before === undefined || behind === undefined) return { at: dropped, places };
  const step = CARD.width + GAP.x;
  const at = { x: Math.max(dropped.x, before.x + step), y: dropped.y };
  const lacking = behind.x < before.x ? 0 : Math.max(at.x + step - behind.x, 0);
  const moved = [...places].map(([id, { x, y }]) => {
    return [id, { x: x >= behind.x ? x + lacking : x, y }] as const;
  });
  return { at, places: new Map(moved) };
}
