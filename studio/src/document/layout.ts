// Positions of modules: `{"positions": {"scan_1": [x, y]}}` in the document's layout, whose other
// members are left alone.

import { renameCodeBlocks } from "./code/codeBlocks";
import type { Flow } from "./flow";
import { renameGroups } from "./groups";
import { isList, isObject, type Json, type JsonObject } from "./json";
import { floatOf, type Numeral, numeralText } from "./numeral";

/** The upper left corner of a module's card, in canvas pixels. */
export interface Position {
  readonly x: number;
  readonly y: number;
}

/** The positions in the layout. */
export function positionsOf(flow: Flow): ReadonlyMap<string, Position> {
  const positions = new Map<string, Position>();
  for (const [id, value] of entriesOf(flow)) {
    const [x, y] = isList(value) ? value.map(coordinate) : [];
    if (x !== undefined && y !== undefined) positions.set(id, { x, y });
  }
  return positions;
}

/** Sets positions in the layout. */
export function withPositions(flow: Flow, moved: ReadonlyMap<string, Position>): Flow {
  const positions = new Map(entriesOf(flow));
  for (const [id, { x, y }] of moved) positions.set(id, [round(x), round(y)]);
  return { ...flow, layout: withEntries(flow.layout, positions) };
}

/** Renames the ids of the layout; those of positions without a new id are removed. */
export function renamePositions(flow: Flow, idOf: (id: string) => string | undefined): Flow {
  return renameCodeBlocks(renameGroups(renameEntries(flow, idOf), idOf), idOf);
}

function renameEntries(flow: Flow, idOf: (id: string) => string | undefined): Flow {
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

/** Replaces the positions; a layout of unknown form is kept as member `other`. */
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

/** Rounds to whole pixels, which read well in generated code. */
function round(pixels: number): number | Numeral {
  const whole = Math.round(pixels);
  return Number.isSafeInteger(whole) ? whole + 0 : (floatOf(whole) ?? 0);
}
