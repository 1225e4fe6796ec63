// The names that `import euphrates as eu` provides for building flows, derived from the same specs
// as `python/euphrates/modules.py`.

import type { Json } from "../json";
import { didYouMean } from "../problem";
import {
  builtInNames,
  optionsOf,
  requiredOf,
  type Schema,
  type Spec,
  type Specs,
  takesList,
} from "../specs";
import { pythonName } from "./keywords";
import { CodeError, type SourcePosition } from "./tokenizer";
import {
  type CallArguments,
  FlowBuilder,
  jsonOf,
  type ModuleConfig,
  NONE,
  plainJson,
  textOf,
  type Value,
} from "./values";

type Variables = Extract<Value, { kind: "variable" }>[];

/** The value of an attribute of the package. */
export function packageAttribute(name: string, specs: Specs, place: SourcePosition): Value {
  const own = PACKAGE_FUNCTIONS[name];
  if (own !== undefined) return { kind: "function", name: `eu.${name}`, call: own };
  const spec = [...specs.values()].find((spec) => pythonName(spec.name) === name);
  if (spec !== undefined) {
    return { kind: "function", name: `eu.${name}`, call: (given) => callModule(spec, given) };
  }
  if (/^[A-Z]/.test(name) || RUN_NAMES.has(name))
    return { kind: "unknown", why: `\`eu.${name}\` is for running flows` };
  const known = [...Object.keys(PACKAGE_FUNCTIONS), ...builtInNames(specs).map(pythonName)];
  const near = didYouMean(name, known);
  const remedy = near ? `did you mean \`eu.${near}\`?` : 'eu.module("name", {…}) places any module';
  throw new CodeError(`\`euphrates\` has no \`${name}\``, place, remedy);
}

/** Names for running flows, which build nothing; so are all classes. */
const RUN_NAMES = new Set(["errors", "launch", "modules", "perturb", "schema", "__version__"]);

const PACKAGE_FUNCTIONS: Readonly<Record<string, (given: CallArguments) => Value>> = {
  Flow(given) {
    const { values, place } = given.bind("eu.Flow()", ["name"]);
    const name = values.get("name");
    const text = name === undefined ? "flow" : textOf(name, "the name of the flow", place("name"));
    return { kind: "flow", flow: new FlowBuilder(text) };
  },
  module(given) {
    const { values, place } = given.bind("eu.module()", ["name", "config"]);
    const module = textOf(values.get("name") ?? NONE, "the name of the module", place("name"));
    const variables: Variables = [];
    const config = jsonOf(values.get("config") ?? NONE, place("config"), variables);
    const isGiven = config instanceof Map;
    if (config !== null && !isGiven)
      throw new CodeError("a configuration is a dict", place("config"));
    return { kind: "module", module, config: { json: isGiven ? config : new Map(), variables } };
  },
  var: variable,
  Var: variable,
};

/** `eu.var("path", default="a.csv", doc="…")`. */
export function variable(given: CallArguments): Extract<Value, { kind: "variable" }> {
  const { values, place } = given.bind("eu.var()", ["name"], ["default", "doc"]);
  const name = textOf(values.get("name") ?? NONE, "the name of the variable", place("name"));
  const value = plainJson(values.get("default") ?? NONE, place("default"));
  const doc = plainJson(values.get("doc") ?? NONE, place("doc"));
  if (doc !== null && typeof doc !== "string")
    throw new CodeError("doc is not a text", place("doc"));
  const declared = { default: value ?? undefined, doc: doc ?? undefined, unknown: new Map() };
  return { kind: "variable", name, declared };
}

/** A call of a module's function: required options may be positional. */
function callModule(spec: Spec, given: CallArguments): Value {
  const options = optionsOf(spec);
  const required = requiredOf(spec);
  const rest = [...options.keys()].filter((name) => !required.includes(name));
  const call = `eu.${pythonName(spec.name)}()`;
  const { values, place } = given.bind(call, required.map(pythonName), rest.map(pythonName));
  const missing = required.find((name) => !values.has(pythonName(name)));
  if (missing !== undefined) {
    throw new CodeError(`${call} needs \`${pythonName(missing)}\``, given.place);
  }
  const optionNames = new Map([...options.keys()].map((name) => [pythonName(name), name]));
  const variables: Variables = [];
  const json = new Map<string, Json>();
  // Required options first, then as written: the order of the document.
  const names = [...required.map(pythonName), ...[...values.keys()]];
  for (const parameter of new Set(names)) {
    const name = optionNames.get(parameter) ?? parameter;
    const value = values.get(parameter) ?? NONE;
    const option = options.get(name) ?? {};
    const isLeftOut = value.kind === "plain" && value.json === null && !required.includes(name);
    if (!isLeftOut) json.set(name, configValue(value, option, place(parameter), variables));
  }
  return { kind: "module", module: spec.name, config: { json, variables } satisfies ModuleConfig };
}

function configValue(
  value: Value,
  schema: Schema,
  place: SourcePosition,
  variables: Variables,
): Json {
  if (takesPython(schema) && value.kind === "imported" && value.name !== undefined) {
    return `${value.module}:${value.name}`;
  }
  const isTable = value.kind === "list" || (value.kind === "dict" && !isReference(value.members));
  if (schema["x-python"] === "Any" && isTable) {
    const remedy = "read it from a file, or name a function that makes it: `package.module:name`";
    throw new CodeError("a table lives in the program only", place, remedy);
  }
  const json = jsonOf(value, place, variables);
  return typeof json === "string" && takesList(schema) ? [json] : json;
}

function isReference(members: ReadonlyMap<string, Value>): boolean {
  return members.size === 1 && (members.has("$var") || members.has("$live"));
}

/** Whether an option takes a Python object, which a document names by import path. */
export function takesPython(schema: Schema): boolean {
  return (schema.anyOf ?? []).some((member) => member.properties?.$live !== undefined);
}
