// Store of the settings for the next run: variables, cluster, threads, memory. Values are kept by
// variable name, also across flows.

import { create } from "zustand";
import type { Flow } from "../../document/flow";
import type { Json } from "../../document/json";

/** Settings for the next run. */
export interface RunSettings {
  readonly variables: ReadonlyMap<string, Json>;
  readonly cluster: string;
  readonly threads: number | undefined;
  readonly memory: string | undefined;
}

export const useRunSettings = create<RunSettings>(() => ({
  variables: new Map(),
  cluster: "",
  threads: undefined,
  memory: undefined,
}));

/** The given values of the variables that the flow declares. */
export function givenVariables(flow: Flow): ReadonlyMap<string, Json> {
  const { variables } = useRunSettings.getState();
  return new Map([...variables].filter(([name]) => flow.variables.has(name)));
}

/** The names of variables without value and default. */
export function missingVariables(flow: Flow): string[] {
  const given = givenVariables(flow);
  return [...flow.variables].flatMap(([name, { default: defaultValue }]) =>
    defaultValue === undefined && !given.has(name) ? [name] : [],
  );
}
