// What the modules say about themselves: read from the file derived from the Rust specs, or from
// the server. Palette, forms, ports and generated code all follow from it.

import builtIn from "../generated/modules.json";
import { type Problem, unknown } from "./problem";

/** What a module needs of the order of its input. */
export type Order = "any" | "keeps" | "ordered";

/** Names of ports; as many as are attached; or those the configuration asks for. */
export type PortNames = readonly string[] | "many" | "configured";

/** A module's description of itself. */
export interface Spec {
  readonly name: string;
  readonly summary: string;
  /** Markdown. */
  readonly detail: string;
  readonly inputs: PortNames;
  readonly outputs: PortNames;
  readonly order: Order;
  readonly effect: "pure" | "effect";
  /** Whether more than one instance is possible. */
  readonly parallel: boolean;
  readonly wants_memory: boolean;
  readonly config: Schema;
  /** What is the user's own: where it is, and which module runs it. */
  readonly own?: Own;
}

/** A class or function of the user's, which a document names in an option of `module`. */
export interface Own {
  readonly title: string;
  readonly file: string;
  readonly module: string;
  /** The option that says where it is; the spec's name is its value. */
  readonly option: string;
  /** The option with what is given to it, by name. */
  readonly arguments: string;
}

/** The part of JSON schema that modules use: a closed one, so that any form can be drawn. */
export interface Schema {
  readonly type?: string | readonly string[];
  readonly const?: string;
  readonly oneOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema | boolean;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | boolean;
  readonly default?: unknown;
  readonly description?: string;
  readonly minimum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  /** What Python takes, where it is more than JSON says. */
  readonly "x-python"?: string;
}

/** The modules a flow can be made of, by name. */
export type Specs = ReadonlyMap<string, Spec>;

export function specsOf(list: readonly Spec[]): Specs {
  return new Map(list.map((spec) => [spec.name, spec]));
}

/** The modules that come with Euphrates. */
export const BUILT_IN: Specs = specsOf(builtIn as unknown as readonly Spec[]);

/** The options of a module, by name, in their order. */
export function optionsOf(spec: Spec | undefined): ReadonlyMap<string, Schema> {
  return new Map(Object.entries(spec?.config.properties ?? {}));
}

/** The options that must be given, in the order of their declaration. */
export function requiredOf(spec: Spec): readonly string[] {
  const required = spec.config.required ?? [];
  return [...optionsOf(spec).keys()].filter((name) => required.includes(name));
}

/** Whether an option is a list of something, as columns are: for a call, a name alone is one. */
export function lists(option: Schema): boolean {
  return [option.type ?? []].flat().includes("array") && typeof option.items === "object";
}

/** What a document can call a module; what is the user's own stands in its configuration. */
export function namesOf(specs: Specs): string[] {
  return [...specs.values()].filter(({ own }) => own === undefined).map(({ name }) => name);
}

export function noSuchModule(specs: Specs, name: string): Problem {
  return unknown("module", name, namesOf(specs));
}
