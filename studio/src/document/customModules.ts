// Custom modules: a class or function of the user that `python` or `map` runs. One option of the
// document names it, another holds its arguments.

import type { Module } from "./flow";
import { isList, isObject, type Json, type JsonObject } from "./json";
import { type CustomSource, optionsOf, type Spec, type Specs } from "./specs";

/** The spec of a custom module. */
export type CustomSpec = Spec & { readonly own: CustomSource };

export function isCustom(spec: Spec): spec is CustomSpec {
  return spec.own !== undefined;
}

/** The spec of the custom module that a module runs, if known. */
export function customSpecOf(specs: Specs, { module, config }: Module): CustomSpec | undefined {
  for (const option of ["module", "function"]) {
    const name = config.get(option);
    const spec = typeof name === "string" ? specs.get(name) : undefined;
    if (spec !== undefined && isCustom(spec)) {
      if (spec.own.module === module && spec.own.option === option) return spec;
    }
  }
  return undefined;
}

/** The most specific spec of a module: the custom one before the built-in one. */
export function specFor(specs: Specs, module: Module): Spec | undefined {
  return customSpecOf(specs, module) ?? specs.get(module.module);
}

/** The configuration of a newly placed custom module. */
export function customConfig({ name, own }: CustomSpec): JsonObject {
  return new Map([[own.option, name]]);
}

/** The arguments by name, including those that a program gave by position. */
export function argumentsOf(spec: CustomSpec, { config }: Module): JsonObject {
  const named = config.get(spec.own.arguments);
  const positional = config.get("args");
  const names = [...optionsOf(spec).keys()];
  const given = (isList(positional) ? positional : []).flatMap((value, i) => {
    const name = names[i];
    return name === undefined ? [] : [[name, value] as const];
  });
  return new Map<string, Json>([...given, ...(isObject(named) ? named : [])]);
}

/** Sets or removes an argument; positional arguments become named ones. */
export function withArgument(
  spec: CustomSpec,
  module: Module,
  name: string,
  value: Json | undefined,
): JsonObject {
  const given = new Map(argumentsOf(spec, module));
  if (value === undefined) given.delete(name);
  else given.set(name, value);
  const config = new Map(module.config);
  config.delete("args");
  config.delete(spec.own.arguments);
  if (given.size > 0) config.set(spec.own.arguments, given);
  return config;
}

/** Whether all its parameters are named, so that a form can list them. */
export function hasNamedArguments(spec: CustomSpec): boolean {
  return spec.config.additionalProperties === false;
}

/** The options shown as plain fields: without those that the argument fields replace. */
export function plainOptions(spec: CustomSpec | undefined, names: Iterable<string>): string[] {
  const replaced =
    spec !== undefined && hasNamedArguments(spec) ? ["args", spec.own.arguments] : [];
  return [...names].filter((name) => !replaced.includes(name));
}
