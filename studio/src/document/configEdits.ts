// Edits of module options and of the variables that they refer to.

import { argumentsOf, type CustomSpec, withArgument } from "./customModules";
import { changeModule, without } from "./edits";
import {
  EMPTY_OBJECT,
  type Flow,
  type Module,
  moduleOf,
  type Variable,
  variableName,
  variableReference,
  variablesIn,
} from "./flow";
import { isList, isObject, type Json, type JsonObject } from "./json";
import { sortByName } from "./openDocument";
import { EditError, unknownName } from "./problem";
import { valueProblem } from "./schema";
import { optionsOf, type Specs } from "./specs";

/** A place for a value: a module's option, or an argument of a custom module. */
export type ValueSlot = string | { readonly spec: CustomSpec; readonly argument: string };

export function valueAt(module: Module, slot: ValueSlot): Json | undefined {
  if (typeof slot === "string") return module.config.get(slot);
  return argumentsOf(slot.spec, module).get(slot.argument);
}

/** Sets an option, or removes it if the value is undefined. */
export function setOption(flow: Flow, id: string, slot: ValueSlot, value: Json | undefined): Flow {
  return changeModule(flow, id, (module) => {
    const config = withValue(module, slot, value);
    return { ...module, config, unknown: without(module.unknown, ["config"]) };
  });
}

function withValue(module: Module, slot: ValueSlot, value: Json | undefined): JsonObject {
  if (typeof slot !== "string") return withArgument(slot.spec, module, slot.argument, value);
  const config = new Map(module.config);
  if (value === undefined) config.delete(slot);
  else config.set(slot, value);
  return config;
}

/** Binds an option to a variable; a new variable gets the option's value as default. */
export function bind(flow: Flow, id: string, slot: ValueSlot, name: string): Flow {
  if (name === "") throw new EditError({ message: "a variable needs a name" });
  const module = moduleOf(flow, id);
  const value = module && valueAt(module, slot);
  const isNew = !flow.variables.has(name);
  const given = variableName(value) === undefined ? (value ?? undefined) : undefined;
  const declared = isNew ? setVariable(flow, name, { default: given }) : flow;
  return setOption(declared, id, slot, variableReference(name));
}

/** Replaces a variable in an option by its default. */
export function unbind(flow: Flow, id: string, slot: ValueSlot): Flow {
  const module = moduleOf(flow, id);
  const name = variableName(module && valueAt(module, slot));
  if (name === undefined) return flow;
  return setOption(flow, id, slot, flow.variables.get(name)?.default);
}

/** Declares a variable, or changes one. */
export function setVariable(
  flow: Flow,
  name: string,
  change: Partial<Pick<Variable, "default" | "doc">>,
): Flow {
  if (name === "") throw new EditError({ message: "a variable needs a name" });
  const known = flow.variables.get(name) ?? { unknown: EMPTY_OBJECT };
  const changed = { ...known, ...change, unknown: without(known.unknown, Object.keys(change)) };
  return { ...flow, variables: sortByName(new Map([...flow.variables, [name, changed]])) };
}

/** Renames a variable and all its uses. */
export function renameVariable(flow: Flow, name: string, to: string): Flow {
  const variable = requireVariable(flow, name);
  if (name === to) return flow;
  if (to === "") throw new EditError({ message: "a variable needs a name" });
  if (flow.variables.has(to)) {
    throw new EditError({
      message: `there is a variable \`${to}\``,
      remedy: "choose another name",
    });
  }
  const variables = new Map(flow.variables);
  variables.delete(name);
  variables.set(to, variable);
  const renamed = { ...flow, variables: sortByName(variables) };
  return replaceVariable(renamed, name, variableReference(to));
}

/** Removes a variable; its uses get its default. */
export function removeVariable(flow: Flow, name: string): Flow {
  const variable = requireVariable(flow, name);
  const [use] = usesOf(flow, name);
  if (use !== undefined && variable.default === undefined) {
    throw new EditError({
      message: `\`${use.module}\` uses variable \`${name}\`, which has no default to leave there`,
      remedy: "give it a default, or give the option a value of its own",
    });
  }
  const variables = new Map(flow.variables);
  variables.delete(name);
  return replaceVariable({ ...flow, variables }, name, variable.default ?? null);
}

/** Why a value is invalid for some use of a variable; undefined if it is valid for all. */
export function variableProblem(
  flow: Flow,
  specs: Specs,
  name: string,
  value: Json,
): string | undefined {
  for (const { id, module, config } of flow.modules) {
    const options = optionsOf(specs.get(module));
    for (const [option, held] of config) {
      const why = variableName(held) === name && valueProblem(value, options.get(option) ?? {});
      if (why) return `${why}, as \`${option}\` of \`${id}\` has to be`;
    }
  }
  return undefined;
}

/** A use of a variable by an option. */
export interface VariableUse {
  readonly module: string;
  readonly option: string;
}

/** All uses of a variable. */
export function usesOf(flow: Flow, name: string): VariableUse[] {
  return flow.modules.flatMap(({ id, config }) =>
    [...config]
      .filter(([, value]) => variablesIn(value).includes(name))
      .map(([option]) => ({ module: id, option })),
  );
}

function requireVariable(flow: Flow, name: string): Variable {
  const variable = flow.variables.get(name);
  if (variable === undefined)
    throw new EditError(unknownName("variable", name, [...flow.variables.keys()]));
  return variable;
}

function replaceVariable(flow: Flow, name: string, by: Json): Flow {
  const users = new Set(usesOf(flow, name).map(({ module }) => module));
  const modules = flow.modules.map((module) => {
    if (!users.has(module.id)) return module;
    const config = [...module.config].map(([key, value]) => [key, replaced(value)] as const);
    return { ...module, config: new Map(config) };
  });
  return { ...flow, modules };

  function replaced(value: Json): Json {
    if (variableName(value) === name) return by;
    if (isList(value)) return value.map(replaced);
    if (!isObject(value)) return value;
    return new Map([...value].map(([key, member]) => [key, replaced(member)]));
  }
}
