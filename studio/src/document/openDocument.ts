// Opens a document as far as possible. What is not understood is reported, kept, and written back
// by `writeDocument`: opening and saving loses nothing.

import {
  DOCUMENT_VERSION,
  EMPTY_OBJECT,
  type Flow,
  type Module,
  newFlow,
  type Port,
  QUEUE_KINDS,
  type Queue,
  type Stray,
  type Variable,
} from "./flow";
import { isList, isObject, type Json, type JsonObject, readJson } from "./json";
import { type Problem, withPlace } from "./problem";

export interface OpenedDocument {
  readonly flow: Flow;
  readonly problems: readonly Problem[];
  /** False if part of the text could not be read: saving must not replace the file then. */
  readonly isComplete: boolean;
}

/** Opens a document's text. */
export function openDocument(text: string): OpenedDocument {
  const { value, problems, isComplete } = readJson(text);
  const opened = openJson(value);
  return { ...opened, problems: [...problems, ...opened.problems], isComplete };
}

/** Opens a document's JSON. */
export function openJson(value: Json | undefined): { flow: Flow; problems: readonly Problem[] } {
  if (!isObject(value)) {
    const problem = { message: "the JSON is not a flow", remedy: "open another file" };
    const unknown = value === undefined ? EMPTY_OBJECT : new Map([["not a flow", value]]);
    return { flow: { ...newFlow(), unknown }, problems: [problem] };
  }
  const problems: Problem[] = [];
  const fields = new Fields(value, problems);
  const version = fields.take("euphrates", "a version", whole);
  const name = fields.take("name", "a text", text);
  if (!value.has("euphrates")) problems.push({ message: "the flow has no `euphrates` version" });
  if (version !== undefined && version > DOCUMENT_VERSION) problems.push(newerVersion(version));
  if (!value.has("name")) problems.push({ message: "the flow has no name" });
  const variables = new Map<string, Variable>();
  const strayVariables = new Map<string, Json>();
  for (const [name, given] of fields.take("variables", "an object", object) ?? []) {
    if (isObject(given)) variables.set(name, readVariable(name, given, problems));
    else strayVariables.set(name, given);
    if (!isObject(given)) problems.push({ place: `variable ${name}`, message: "is no object" });
  }
  const [modules, strayModules] = distinctModules(fields.take("modules", "a list", list), problems);
  const [queues, strayQueues] = entries(fields.take("queues", "a list", list), (item, number) =>
    readQueue(item, `queue ${number + 1}`, problems),
  );
  const flow: Flow = {
    version: version ?? DOCUMENT_VERSION,
    name: name ?? "flow",
    variables: sortByName(variables),
    modules,
    queues,
    layout: fields.take("layout", "a value", (layout) => layout),
    unknown: fields.rest(),
    strays: { modules: strayModules, queues: strayQueues, variables: strayVariables },
  };
  return { flow, problems };
}

function newerVersion(version: number): Problem {
  const message = `the flow is of version ${version}`;
  const remedy = `this program reads up to ${DOCUMENT_VERSION}: upgrade it`;
  return { message, remedy };
}

function readVariable(name: string, given: JsonObject, problems: Problem[]): Variable {
  const fields = new Fields(given, problems, `variable ${name}`);
  return {
    default: fields.take("default", "a value", (value) => value),
    doc: fields.take("doc", "a text", text),
    unknown: fields.rest(),
  };
}

/** Reads modules; of several with the same id, only the first. */
function distinctModules(given: readonly Json[] | undefined, problems: Problem[]) {
  const ids = new Set<string>();
  return entries(given, (item, number) => {
    const found = readModule(item, `module ${number + 1}`, problems);
    if (found === undefined || !ids.has(found.id)) {
      if (found !== undefined) ids.add(found.id);
      return found;
    }
    const remedy = "it is kept, but not drawn: give it another id in the JSON";
    problems.push({ message: `two modules have the id \`${found.id}\``, remedy });
    return undefined;
  });
}

function readModule(item: Json, place: string, problems: Problem[]): Module | undefined {
  const id = isObject(item) ? item.get("id") : undefined;
  const named = typeof id === "string" ? `module ${id}` : place;
  if (!isObject(item) || typeof id !== "string" || typeof item.get("module") !== "string") {
    problems.push({ place: named, message: "is no module: it needs `id` and `module`" });
    return undefined;
  }
  const fields = new Fields(item, problems, named);
  return {
    id: fields.take("id", "a text", text) ?? "",
    module: fields.take("module", "a text", text) ?? "",
    config: fields.take("config", "an object", object) ?? EMPTY_OBJECT,
    count: fields.take("count", "a whole number", whole),
    per_worker: fields.take("per_worker", "a whole number", whole),
    workers: fields.take("workers", "a list of texts", texts) ?? [],
    unknown: fields.rest(),
  };
}

function readQueue(item: Json, place: string, problems: Problem[]): Queue | undefined {
  const ends = isObject(item) ? [item.get("from"), item.get("to")] : [];
  if (!isObject(item) || ends.some((end) => typeof end !== "string")) {
    problems.push({ place, message: "is no queue: it needs `from` and `to`" });
    return undefined;
  }
  const fields = new Fields(item, problems, place);
  return {
    from: fields.take("from", "a text", text) ?? "",
    output: fields.take("output", "a port", port),
    to: fields.take("to", "a text", text) ?? "",
    input: fields.take("input", "a port", port),
    queue: fields.take("queue", `one of ${QUEUE_KINDS.join(", ")}`, kind),
    bytes_max: fields.take("bytes_max", "a whole number", whole),
    unknown: fields.rest(),
  };
}

/** The items that `read` understands, and the others with their positions. */
function entries<T>(
  given: readonly Json[] | undefined,
  read: (item: Json, number: number) => T | undefined,
): [T[], Stray[]] {
  const found: T[] = [];
  const strays: Stray[] = [];
  (given ?? []).forEach((item, number) => {
    const one = read(item, number);
    if (one === undefined) strays.push([number, item]);
    else found.push(one);
  });
  return [found, strays];
}

/** Takes known fields out of an object; the rest is kept as unknown. */
class Fields {
  private readonly left: Map<string, Json>;

  constructor(
    object: JsonObject,
    private readonly problems: Problem[],
    private readonly place?: string,
  ) {
    this.left = new Map(object);
  }

  /** Takes a field; undefined, with a problem unless it is absent, if `read` rejects it. */
  take<T>(key: string, what: string, read: (value: Json) => T | undefined): T | undefined {
    const value = this.left.get(key);
    if (value === undefined || value === null) {
      this.left.delete(key);
      return undefined;
    }
    const found = read(value);
    if (found === undefined) this.report({ message: `\`${key}\` is not ${what}` });
    else this.left.delete(key);
    return found;
  }

  /** The fields not taken. */
  rest(): JsonObject {
    return this.left.size > 0 ? this.left : EMPTY_OBJECT;
  }

  private report(problem: Problem): void {
    this.problems.push(this.place === undefined ? problem : withPlace(this.place, problem));
  }
}

function text(value: Json): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function whole(value: Json): number | undefined {
  return Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : undefined;
}

function port(value: Json): Port | undefined {
  return text(value) ?? whole(value);
}

function kind(value: Json) {
  return QUEUE_KINDS.find((kind) => kind === value);
}

function object(value: Json): JsonObject | undefined {
  return isObject(value) ? value : undefined;
}

function list(value: Json): readonly Json[] | undefined {
  return isList(value) ? value : undefined;
}

function texts(value: Json): readonly string[] | undefined {
  if (!isList(value)) return undefined;
  const found = value.filter((item) => typeof item === "string");
  return found.length === value.length ? found : undefined;
}

/** Sorts by name, in Rust's order: by code points. */
export function sortByName<T>(map: ReadonlyMap<string, T>): ReadonlyMap<string, T> {
  return new Map([...map].sort(([a], [b]) => byCodePoints(a, b)));
}

function byCodePoints(a: string, b: string): number {
  const [left, right] = [[...a], [...b]];
  for (let i = 0; i < Math.min(left.length, right.length); i += 1) {
    const difference = (left[i]?.codePointAt(0) ?? 0) - (right[i]?.codePointAt(0) ?? 0);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}
