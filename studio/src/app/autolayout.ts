// Where modules are drawn that nobody has put anywhere: from left to right, by dagre.

import { graphlib, layout } from "@dagrejs/dagre";
import type { Flow } from "../document/flow";
import { sameJson } from "../document/json";
import { type Position, positionsOf } from "../document/layout";
import { module as moduleJson } from "../document/write";

/** What a module takes on the canvas, as styles.css has it. */
export const CARD = { width: 192, height: 76 } as const;

/** More modules than dagre places while somebody waits; beyond, they stand in rows. */
const DAGRE_MODULES_MAX = 1500;
const ROW = 40;
/** Between cards. */
export const GAP = { x: 104, y: 28 } as const;

/** A place for every module. */
export function arranged(flow: Flow): ReadonlyMap<string, Position> {
  if (flow.modules.length > DAGRE_MODULES_MAX) return inRows(flow);
  const graph = new graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "LR", nodesep: GAP.y, ranksep: GAP.x });
  graph.setDefaultEdgeLabel(() => ({}));
  // By number: a module may be called `__proto__`.
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
 * Where each module is drawn: where the flow says, else where it was drawn before, else where there
 * is room: below what has its place.
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

/** The places of a flow's modules under the names that they have in the next one. */
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
 * The places of modules when one is put between two others, near where it was dropped: whatever is
 * right of the consumer moves on as far as the new one needs.
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
