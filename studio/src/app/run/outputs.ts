// Outputs that are there before a run: sinks that would fail unless they may replace them.

import { setOption } from "../../document/configEdits";
import { type Flow, type Module, variableName } from "../../document/flow";
import type { Json } from "../../document/json";
import { givenVariables } from "../state/runSettings";
import { refreshFiles, useServer } from "../state/serverStore";
import { currentFlow } from "../state/studioStore";

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

/** The flow in which these sinks may replace what is there. */
export function replacing(flow: Flow, ids: readonly string[]): Flow {
  return ids.reduce((flow, id) => {
    const module = flow.modules.find((module) => module.id === id);
    const [option, value] = REPLACING[module?.module ?? ""] ?? [];
    return option === undefined ? flow : setOption(flow, id, option, value);
  }, flow);
}

/** The flow without the settings that `replacing` may have changed, for comparison. */
export function withoutReplacing(flow: Flow): Flow {
  return flow.modules.reduce((flow, { id, module }) => {
    const [option] = REPLACING[module] ?? [];
    return option === undefined ? flow : setOption(flow, id, option, undefined);
  }, flow);
}
