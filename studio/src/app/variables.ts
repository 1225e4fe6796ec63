// What the variables of a flow are when it is run or checked: what was given last for this name,
// which the flow's own default need not be.

import { create } from "zustand";
import type { Flow } from "../document/flow";
import type { Json } from "../document/json";

/** How a flow is run the next time. */
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

/** The values given for variables that the flow has. */
export function variablesFor(flow: Flow): ReadonlyMap<string, Json> {
  const { variables } = useSettings.getState();
  return new Map([...variables].filter(([name]) => flow.variables.has(name)));
}

/** The variables that have neither a value nor a default. */
export function missingFor(flow: Flow): string[] {
  const given = variablesFor(flow);
  return [...flow.variables].flatMap(([name, { default: usual }]) =>
    usual === undefined && !given.has(name) ? [name] : [],
  );
}
