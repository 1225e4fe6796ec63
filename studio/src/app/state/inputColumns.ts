// The columns that arrive at a module, by input. They follow from the producers alone, so they are
// known while the module's own options are empty or invalid.

import { attachmentsOf, endsAt } from "../../document/ports";
import type { Column } from "../backend/api";
import { portKey, queueKeyAt } from "./queueKeys";
import { type StudioState, useStudio } from "./studioStore";

/** The columns of each attached input. */
export function inputColumns(
  { history, specs, engineCheck }: StudioState,
  id: string,
): ReadonlyMap<string, readonly Column[]> {
  const flow = history.now;
  const module = flow.modules.find((module) => module.id === id);
  const found = new Map<string, readonly Column[]>();
  if (module === undefined) return found;
  for (const { queue, port } of attachmentsOf(
    specs,
    module,
    "inputs",
    endsAt(flow, "inputs", id),
  )) {
    const key = queueKeyAt(flow, specs, queue) ?? "";
    const checked = engineCheck.queues.find(({ from, output }) => portKey([from, output]) === key);
    const columns = engineCheck.outputs?.get(key) ?? checked?.schema ?? [];
    if (typeof port === "string") found.set(port, columns);
  }
  return found;
}

/** The names of the columns of all inputs, or of one. */
export function useColumnNames(id: string, input?: string): readonly string[] {
  const text = useStudio((state) => {
    const columns = [...inputColumns(state, id)];
    const of = columns.filter(([port]) => input === undefined || port === input);
    // One text, so that the store's consumers can compare it.
    return JSON.stringify([...new Set(of.flatMap(([, all]) => all.map(({ name }) => name)))]);
  });
  return JSON.parse(text) as readonly string[];
}
