// Outputs that are there before a run: sinks that would fail unless they may replace them.

import { setOption } from "../../document/configEdits";
import { type Flow, type Module, variableName } from "../../document/flow";
import type { Json } from "../../document/json";
import { givenVariables } from "../state/runSettings";
import { refreshFiles, useServer } from "../state/serverStore";
import { currentFlow, edit } from "../state/studioStore";

/** The option of each sink that permits replacing, and its value. */
const REPLACING: Readonly<Record<string, readonly [option: string, value: Json]>> = {
  save: ["overwrite", true],
  save_dataset: ["mode", "overwrite"],
  write: ["overwrite", true],
};

/** An output that a run would find. */
export interface ExistingOutput {
  readonly id: string;
  readonly path: string;
}

/** Whether a sink has a setting that permits replacing, and it is off. */
export function canReplace({ module, config }: Module): boolean {
  const [option = "", value] = REPLACING[module] ?? [];
  return (
    value !== undefined &&
    (config.get(option) ?? "error") !== value &&
    !isAppending(config.get(option))
  );
}

function isAppending(mode: Json | undefined): boolean {
  return mode === "append" || mode === "overwrite_partitions";
}

/** The files that the flow's sinks would find. Collections are known to the engine only. */
export async function existingOutputs(): Promise<readonly ExistingOutput[]> {
  await refreshFiles();
  const { files, session } = useServer.getState();
  const flow = currentFlow();
  const root = `${session?.root ?? ""}/`;
  return flow.modules.filter(canReplace).flatMap((module) => {
    const path = resolvedValue(flow, module.config.get("path"));
    if (typeof path !== "string") return [];
    const relative = path.startsWith(root) ? path.slice(root.length) : path.replace(/^\.\//, "");
    const isThere = files.some((file) => {
      return (
        file.path === relative ||
        (module.module === "save_dataset" && file.path.startsWith(`${relative}/`))
      );
    });
    return isThere ? [{ id: module.id, path: relative }] : [];
  });
}

function resolvedValue(flow: Flow, value: Json | undefined): Json | undefined {
  const name = variableName(value);
  if (name === undefined) return value;
  return givenVariables(flow).get(name) ?? flow.variables.get(name)?.default;
}

/** Permits sinks to replace what is there, or forbids it again. */
export function replaceOutputs(ids: readonly string[], isReplaced = true): boolean {
  return edit("replace the output", (flow) =>
    ids.reduce((flow, id) => {
      const module = flow.modules.find((module) => module.id === id);
      const [option, value] = REPLACING[module?.module ?? ""] ?? [];
      if (option === undefined) return flow;
      return setOption(flow, id, option, isReplaced ? value : undefined);
    }, flow),
  );
}
