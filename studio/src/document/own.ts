// Modules of the user's own: a class or a function of theirs that `python` or `map` runs. A
// document names it in one option, and holds what is given to it in another.

import type { Module } from "./flow";
import { isList, isObject, type Json, type JsonObject } from "./json";
import { type Own, optionsOf, type Spec, type Specs } from "./specs";

/** A description of the user's own. */
export type OwnSpec = Spec & { readonly own: Own };

export function isOwn(spec: Spec): spec is OwnSpec {
  return spec.own !== undefined;
}

/** What a module runs of the user's, as far as it is known. */
export function ownOf(specs: Specs, { module, config }: Module): OwnSpec | undefined {
  for (const option of ["module", "function"]) {
    const name = config.get(option);
    const spec = typeof name === "string" ? specs.get(name) : undefined;
    if (spec !== undefined && isOwn(spec)) {
      if (spec.own.module === module && spec.own.option === option) return spec;
    }
  }
  return undefined;
}

/** The description that says the most of a module: its ports, above all. */
export function specFor(specs: Specs, module: Module): Spec | undefined {
  return ownOf(specs, module) ?? specs.get(module.module);
}

/** The configuration of one that is placed anew. */
export function ownConfig({ name, own }: OwnSpec): JsonObject {
  return new Map([[own.option, name]]);
}

/** What is given to it, by name; also what a program gave by position. */
export function argumentsOf(spec: OwnSpec, { config }: Module): JsonObject {
  const named = config.get(spec.own.arguments);
  const positional = config.get("args");
  const names = [...optionsOf(spec).keys()];
  const given = (isList(positional) ? positional : []).flatMap((value, i) => {
    const name = names[i];
    return name === undefined ? [] : [[name, value] as const];
  });
  return new Map<string, Json>([...given, ...(isObject(named) ? named : [])]);
}

/** The configuration with an argument, or without: what had a position has a name from then on. */
export function withArgument(
  spec: OwnSpec,
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

/** Whether all that can be given to it has a name, so that a form can ask for it. */
export function isTold(spec: OwnSpec): boolean {
  return spec.config.additionalProperties === false;
}

/** The options of a module that a form asks for as they are: not those its own form stands for. */
export function plainOptions(spec: OwnSpec | undefined, names: Iterable<string>): string[] {
  const stood = spec !== undefined && isTold(spec) ? ["args", spec.own.arguments] : [];
  return [...names].filter((name) => !stood.includes(name));
}
