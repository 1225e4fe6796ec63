// Local variable names of modules in generated code.

import { type Flow, idsOf, type Module } from "../flow";

/** A local name for each module: its id if that is an identifier, else `module_<number>`. */
export function localNames(flow: Flow, reserved: ReadonlySet<string>): ReadonlyMap<string, string> {
  const ids = idsOf(flow);
  const isUsable = (id: string) => /^[a-z][a-z0-9_]*$/.test(id) && !reserved.has(id);
  let number = 0;
  const numbered = (): string => {
    number += 1;
    return ids.has(`module_${number}`) ? numbered() : `module_${number}`;
  };
  return new Map([...ids].map((id) => [id, isUsable(id) ? id : numbered()]));
}

/** Modules in order of placement, each with whether `place` would choose the same id. */
export function placements(flow: Flow): (readonly [Module, boolean])[] {
  const placed = new Set<string>();
  const next = new Map<string, number>();
  return flow.modules.map((module) => {
    // Ids are never removed, so the first free number of a module never decreases.
    let number = next.get(module.module) ?? 1;
    while (placed.has(`${module.module}_${number}`)) number += 1;
    next.set(module.module, number);
    placed.add(module.id);
    return [module, `${module.module}_${number}` === module.id];
  });
}
