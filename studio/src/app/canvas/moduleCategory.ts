// The category of a module, which has one colour and a title, and the icon of a module. Both follow
// from its spec where the table has no entry, so that a new module needs none.

import { isCustom } from "../../document/customModules";
import type { Spec } from "../../document/specs";
import type { IconName } from "../ui/Icon";

/** In the order of the palette. */
export const CATEGORIES = ["custom", "source", "row", "group", "route", "sink"] as const;
export type Category = (typeof CATEGORIES)[number];

export const CATEGORY_TITLES: Readonly<Record<Category, string>> = {
  custom: "Yours",
  source: "Sources",
  row: "Transforms",
  group: "Sort, join, group",
  route: "Split and combine",
  sink: "Sinks",
};

const ICONS: Readonly<Record<string, readonly [Category, IconName]>> = {
  aggregate: ["group", "group"],
  count: ["group", "group"],
  divide: ["route", "split"],
  exec: ["row", "code"],
  external_sql: ["source", "code"],
  filter: ["row", "filter"],
  join: ["group", "join"],
  limit: ["row", "filter"],
  map: ["row", "code"],
  merge: ["route", "merge"],
  partition: ["group", "split"],
  pre_aggregate: ["group", "group"],
  python: ["row", "code"],
  recurse: ["route", "redo"],
  sample: ["row", "filter"],
  sort: ["group", "sort"],
  tee: ["route", "split"],
  union: ["route", "merge"],
  window: ["group", "columns"],
};

/** The category and icon of a module; those of an unknown one are a transform's. */
export function categoryOf(spec: Spec | undefined): readonly [Category, IconName] {
  if (spec === undefined) return ["row", "columns"];
  if (isCustom(spec)) return ["custom", "code"];
  const known = ICONS[spec.name];
  if (known !== undefined) return known;
  if (spec.inputs.length === 0) return ["source", "source"];
  return spec.outputs.length === 0 ? ["sink", "sink"] : ["row", "columns"];
}
