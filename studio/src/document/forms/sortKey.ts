// Sort keys and join keys as their menus show them. Keys that no menu can hold stay text.

import { isObject, type Json } from "../json";

/** A column and its order, as `price desc nulls first`. */
export interface SortKey {
  readonly column: string;
  /** What follows the column. */
  readonly order: string;
}

export const SORT_ORDERS = ["", "desc", "nulls first", "desc nulls first"] as const;

/** A sort key that a menu can hold: a column of the input, or a name without spaces. */
export function readSortKey(value: Json, columns: readonly string[]): SortKey | undefined {
  if (typeof value !== "string") return undefined;
  if (columns.includes(value)) return { column: value, order: "" };
  const [, column = "", order = ""] =
    /^(.*?)((?: asc| desc| nulls (?:first|last))*)$/.exec(value) ?? [];
  const plain = order
    .trim()
    .replace(/^asc ?/, "")
    .replace(/ ?nulls last$/, "");
  const isKnown = SORT_ORDERS.some((one) => one === plain);
  const isColumn = columns.includes(column) || /^[\p{L}_][\p{L}\p{N}_]*$/u.test(column);
  return isKnown && isColumn ? { column, order: plain } : undefined;
}

export function writeSortKey({ column, order }: SortKey): string {
  return order === "" ? column : `${column} ${order}`;
}

/** The columns of a join key. */
export interface JoinKey {
  readonly left: string;
  readonly right: string;
}

export function readJoinKey(value: Json): JoinKey | undefined {
  if (typeof value === "string") return { left: value, right: value };
  if (!isObject(value) || value.size !== 2) return undefined;
  const [left, right] = [value.get("left"), value.get("right")];
  return typeof left === "string" && typeof right === "string" ? { left, right } : undefined;
}

export function writeJoinKey({ left, right }: JoinKey): Json {
  if (left === right) return left;
  return new Map([
    ["left", left],
    ["right", right],
  ]);
}
