// Module specs, derived from Rust or sent by the server. Palette, forms, ports and generated code
// follow from them.

import builtIn from "../generated/modules.json";
import { type Problem, unknownName } from "./problem";

/** How a module treats the order of its input. */
export type Order = "any" | "keeps" | "ordered";

/** Names of ports; `many`: one per queue; `configured`: the configuration decides. */
export type PortNames = readonly string[] | "many" | "configured";

/** The spec of a module, as Rust derives it. */
export interface Spec {
  readonly name: string;
  readonly summary: string;
  /** Markdown. */
  readonly detail: string;
  /** A Python doctest; custom modules have none. */
  readonly example?: string;
  readonly inputs: PortNames;
  readonly outputs: PortNames;
  readonly order: Order;
  readonly effect: "pure" | "effect";
  /** Whether it can have several instances. */
  readonly parallel: boolean;
  readonly wants_memory: boolean;
  readonly config: Schema;
  /** Set for custom modules: their source, and the module that runs them. */
  readonly own?: CustomSource;
}

/** A user's class or function, named by an option of the module that runs it. */
export interface CustomSource {
  readonly title: string;
  readonly file: string;
  readonly module: string;
  /** The option that names it; the spec's name is its value. */
  readonly option: string;
  /** The option that holds its arguments by name. */
  readonly arguments: string;
}

/** The subset of JSON schema that module specs use; forms support all of it. */
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
  /** The Python type, where Python takes more than JSON can hold. */
  readonly "x-python"?: string;
}

/** Specs by module name. */
export type Specs = ReadonlyMap<string, Spec>;

export function specsOf(list: readonly Spec[]): Specs {
  return new Map(list.map((spec) => [spec.name, spec]));
}

/** The modules that are part of Euphrates. */
export const BUILT_IN: Specs = specsOf(builtIn as unknown as readonly Spec[]);

/** The schemas of a module's options, in declaration order. */
export function optionsOf(spec: Spec | undefined): ReadonlyMap<string, Schema> {
  return new Map(Object.entries(spec?.config.properties ?? {}));
}

/** The names of required options, in declaration order. */
export function requiredOf(spec: Spec): readonly string[] {
  const required = spec.config.required ?? [];
  return [...optionsOf(spec).keys()].filter((name) => required.includes(name));
}

/** Whether an option takes a list; a Python call may give a single item for it. */
export function takesList(option: Schema): boolean {
  return [option.type ?? []].flat().includes("array") && typeof option.items === "object";
}

/** The names that a document's `module` can have: without custom modules. */
export function builtInNames(specs: Specs): string[] {
  return [...specs.values()].filter(({ own }) => own === undefined).map(({ name }) => name);
}

export function unknownModule(specs: Specs, name: string): Problem {
  return unknownName("module", name, builtInNames(specs));
}
