// Where modules are drawn: `{"positions": {"scan_1": [x, y]}}` in the document's layout. What else
// stands there is left alone.

import type { Flow } from "./flow";
import { isList, isObject, type Json, type JsonObject } from "./json";
import { floatOf, type Numeral, numeralText } from "./numeral";

/** The middle of a module, or its corner: whatever the canvas takes. In pixels. */
export interface Position {
  readonly x: number;
  readonly y: number;
}

/** Where modules are drawn, as far as it is said. */
export function positionsOf(flow: Flow): ReadonlyMap<string, Position> {
  const positions = new Map<string, Position>();
  for (const [id, value] of entriesOf(flow)) {
    const [x, y] = isList(value) ? value.map(coordinate) : [];
    if (x !== undefined && y !== undefined) positions.set(id, { x, y });
  }
  return positions;
}

/** The flow with modules drawn elsewhere. */
export function withPositions(flow: Flow, moved: ReadonlyMap<string, Position>): Flow {
  const positions = new Map(entriesOf(flow));
  for (const [id, { x, y }] of moved) positions.set(id, [round(x), round(y)]);
  return { ...flow, layout: withEntries(flow.layout, positions) };
}

/** The flow whose positions follow the ids: a new name, or none for what is gone. */
export function withIds(flow: Flow, idOf: (id: string) => string | undefined): Flow {
  const entries = entriesOf(flow);
  if (entries.size === 0) return flow;
  const positions = new Map<string, Json>();
  for (const [id, value] of entries) {
    const now = idOf(id);
    if (now !== undefined) positions.set(now, value);
  }
  return { ...flow, layout: withEntries(flow.layout, positions) };
}

function entriesOf({ layout }: Flow): JsonObject {
  const positions = isObject(layout) ? layout.get("positions") : undefined;
  return isObject(positions) ? positions : new Map();
}

/** A layout that is no object of ours is kept beside the positions. */
function withEntries(layout: Json | undefined, positions: JsonObject): Json {
  const known = isObject(layout) ? layout.get("positions") : undefined;
  const isOurs = isObject(layout) && (known === undefined || isObject(known));
  const rest: JsonObject = isOurs
    ? layout
    : new Map(layout === undefined ? [] : [["other", layout]]);
  return new Map([...rest, ["positions", positions]]);
}

function coordinate(value: Json): number | undefined {
  const isNumber = typeof value === "number" || (typeof value === "object" && !isText(value));
  return isNumber ? Number(numeralText(value as number | Numeral)) : undefined;
}

function isText(value: Json): boolean {
  return value === null || isList(value) || isObject(value);
}

/** Whole pixels are enough, and read well in the code. */
function round(pixels: number): number | Numeral {
  const whole = Math.round(pixels);
  return Number.isSafeInteger(whole) ? whole + 0 : (floatOf(whole) ?? 0);
}
