// Store of the settings for the next run: variables, cluster, threads, memory. Values are kept by
// variable name, also across flows.

import { create } from "zustand";
import type { Flow } from "../../document/flow";
import type { Json } from "../../document/json";

/** Settings for the next run. */
export interface Settings {
  readonly variables: ReadonlyMap<string, Json>;
  readonly cluster: string;
  readonly threads: number | undefined;
  readonly memory: string | undefined;
}

export const useSettings = create<Settings>(() => ({
  variables: new Map(),
  cluster: "",
  threads: undefined,
  memory: undefined,
}));

/** The given values of the variables that the flow declares. */
export function variablesFor(flow: Flow): ReadonlyMap<string, Json> {
  const { variables } = useSettings.getState();
  return new Map([...variables].filter(([name]) => flow.variables.has(name)));
}

/** The names of variables without value and default. */
export function missingFor(flow: Flow): string[] {
  const given = variablesFor(flow);
  return [...flow.variables].flatMap(([name, { default: usual }]) =>
    usual === undefined && !given.has(name) ? [name] : [],
  );
}
