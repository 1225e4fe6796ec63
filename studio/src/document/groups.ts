// Groups of modules: `{"groups": [{"name": "Clean", "note": "…", "modules": ["filter_1"]}]}` in the
// document's layout. They have no effect on the program. Entries and members of another form are
// left alone.

import type { Flow } from "./flow";
import { isList, isObject, type Json, type JsonObject, sameJson } from "./json";
import { EditError } from "./problem";

/** Modules that are drawn in a titled box. */
export interface Group {
  /** Its position in the layout's list. */
  readonly position: number;
  readonly name: string;
  readonly note: string;
  /** Ids of modules of the flow; a module is in one group at most. */
  readonly modules: readonly string[];
  /** Drawn as one card in place of its modules. */
  readonly isFolded: boolean;
}

/** The groups that have modules of the flow. */
export function groupsOf(flow: Flow): readonly Group[] {
  const entries = entriesOf(flow);
  if (entries.length === 0) return [];
  const free = new Set(flow.modules.map(({ id }) => id));
  return entries.flatMap((entry, position) => {
    const modules = membersOf(entry).filter((id) => free.delete(id));
    if (!isObject(entry) || modules.length === 0) return [];
    const isFolded = entry.get("folded") === true;
    return [
      { position, name: textOf(entry, "name"), note: textOf(entry, "note"), modules, isFolded },
    ];
  });
}

/** The group whose modules are exactly these. */
export function groupOf(flow: Flow, ids: ReadonlySet<string>): Group | undefined {
  if (ids.size === 0) return undefined;
  return groupsOf(flow).find(({ modules }) => {
    return modules.length === ids.size && modules.every((id) => ids.has(id));
  });
}

/** Puts modules into a new group, and takes them out of others. */
export function addGroup(flow: Flow, ids: ReadonlySet<string>): Flow {
  const modules = flow.modules.map(({ id }) => id).filter((id) => ids.has(id));
  if (modules.length === 0) {
    throw new EditError({ message: "no module is selected", remedy: "select some to group them" });
  }
  const names = new Set(groupsOf(flow).map(({ name }) => name));
  let number = 1;
  while (names.has(`Group ${number}`)) number += 1;
  const left = renameGroups(flow, (id) => (ids.has(id) ? undefined : id));
  const group = new Map<string, Json>([
    ["name", `Group ${number}`],
    ["modules", modules],
  ]);
  return withEntries(left, [...entriesOf(left), group]);
}

/** What can be changed of a group. */
export type GroupChange = Partial<Pick<Group, "name" | "note" | "isFolded">>;

/** Changes the group at a position of the list. */
export function changeGroup(flow: Flow, position: number, change: GroupChange): Flow {
  const entries = entriesOf(flow);
  const entry = entries[position];
  if (!isObject(entry)) throw new EditError({ message: "there is no such group" });
  const changed = new Map(entry);
  if (change.name !== undefined) changed.set("name", change.name);
  if (change.note !== undefined) setUnless(changed, "note", change.note, "");
  if (change.isFolded !== undefined) setUnless(changed, "folded", change.isFolded, false);
  if (sameJson(entry, changed)) return flow;
  return withEntries(flow, entries.with(position, changed));
}

/** Removes a group; its modules stay. */
export function removeGroup(flow: Flow, position: number): Flow {
  return withEntries(flow, entriesOf(flow).toSpliced(position, 1));
}

/** Follows renamed modules. One without a new id leaves its group; a group without any goes. */
export function renameGroups(flow: Flow, idOf: (id: string) => string | undefined): Flow {
  const entries = entriesOf(flow);
  if (entries.length === 0) return flow;
  const renamed = entries.flatMap((entry): readonly Json[] => {
    const before = membersOf(entry);
    const now = before.map(idOf);
    if (now.every((id, i) => id === before[i])) return [entry];
    const modules = now.filter((id) => id !== undefined);
    if (!isObject(entry) || modules.length === 0) return [];
    return [new Map([...entry, ["modules", modules]])];
  });
  return sameJson(entries, renamed) ? flow : withEntries(flow, renamed);
}

/** Appends groups of another flow whose modules were added under other ids. */
export function appendGroups(flow: Flow, from: Flow, idOf: (id: string) => string): Flow {
  const ids = new Set(from.modules.map(({ id }) => id));
  const added = entriesOf(renameGroups(from, (id) => (ids.has(id) ? idOf(id) : undefined)));
  return added.length === 0 ? flow : withEntries(flow, [...entriesOf(flow), ...added]);
}

/** The groups as they are in the document, to be compared. */
export function entriesOf({ layout }: Pick<Flow, "layout">): readonly Json[] {
  const groups = isObject(layout) ? layout.get("groups") : undefined;
  return isList(groups) ? groups : [];
}

function withEntries(flow: Flow, entries: readonly Json[]): Flow {
  const { layout } = flow;
  const rest: Map<string, Json> = isObject(layout)
    ? new Map(layout)
    : new Map(layout === undefined ? [] : [["other", layout]]);
  if (entries.length > 0) rest.set("groups", entries);
  else rest.delete("groups");
  return { ...flow, layout: rest.size === 0 ? undefined : rest };
}

function membersOf(entry: Json): readonly string[] {
  const modules = isObject(entry) ? entry.get("modules") : undefined;
  return isList(modules) ? modules.filter((id) => typeof id === "string") : [];
}

function textOf(entry: JsonObject, key: string): string {
  const text = entry.get(key);
  return typeof text === "string" ? text : "";
}

function setUnless(entry: Map<string, Json>, key: string, value: Json, absent: Json): void {
  if (value === absent) entry.delete(key);
  else entry.set(key, value);
}
