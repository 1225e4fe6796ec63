// Opens, writes, edits, checks and undoes flow documents.

import { expect, test } from "vitest";
import { parseBytes, printBytes } from "../src/document/byteSize";
import { attachProblem, check } from "../src/document/check";
import { copyModules, pasteText } from "../src/document/clipboard";
import {
  bind,
  removeVariable,
  renameVariable,
  setVariable,
  unbind,
  usesOf,
} from "../src/document/configEdits";
import {
  attach,
  place,
  queueBetween,
  removeModules,
  rename,
  setInstances,
  splice,
} from "../src/document/edits";
import { type Flow, moduleOf, newFlow, newQueue, QUEUE_KINDS } from "../src/document/flow";
import { closeStep, newHistory, pushStep, redo, STEPS_MAX, undo } from "../src/document/history";
import { isList, isObject, type Json, printJson, readJson, sameJson } from "../src/document/json";
import { positionsOf, withPositions } from "../src/document/layout";
import { openDocument, openJson } from "../src/document/openDocument";
import { didYouMean, EditError, problemText } from "../src/document/problem";
import { writePython } from "../src/document/python/writePython";
import { BUILT_IN, type Schema } from "../src/document/specs";
import { documentJson, writeDocument } from "../src/document/writeDocument";
import schema from "../src/generated/document.json";
import { randomEdit } from "./randomEdits";
import { forSeeds, type Random } from "./randomFlow";

/** A chain of modules. */
function chain(...modules: string[]): Flow {
  const flow = modules.reduce((flow, module) => place(flow, module).flow, newFlow("chain"));
  const ids = flow.modules.map(({ id }) => id);
  return ids.slice(1).reduce((flow, id, i) => {
    return attach(flow, BUILT_IN, newQueue(ids[i] ?? "", id));
  }, flow);
}

function reason(edit: () => unknown): string {
  try {
    edit();
  } catch (error) {
    if (error instanceof EditError) return problemText(error);
    throw error;
  }
  throw new Error("it was not refused");
}

/** The leaves of a value with their paths. */
function leaves(value: Json, path = ""): string[] {
  if (isObject(value)) return [...value].flatMap(([key, inner]) => leaves(inner, `${path}.${key}`));
  if (isList(value)) return value.flatMap((item) => leaves(item, `${path}[]`));
  return value === null ? [] : [`${path}=${printJson(value)}`];
}

test("numbers, keys and strings round-trip exactly", () => {
  const text = printJson(
    readJson('{"10": 1.0, "2": -0, "big": 18446744073709551615, "e": 1E5, "t": "\\u00e9\\n"}')
      .value ?? null,
  );
  expect(text.replace(/\s+/g, " ")).toBe(
    '{ "10": 1.0, "2": -0.0, "big": 18446744073709551615, "e": 100000.0, "t": "é\\n" }',
  );
});

test.each([
  ['{"a": [1, 2', "expected `,` or `]`", '{"a":[1,2]}'],
  ['{"a": 1, "b": tru', "expected a value", '{"a":1}'],
  ['{"a": 1} x', "trailing characters", '{"a":1}'],
  ['{"a": "x\ny"}', "a text does not end", "{}"],
  ["", "expected a value", ""],
  [`${"[".repeat(500)}`, "too deep", ""],
])("JSON before an error is kept: %j", (text, problem, kept) => {
  const { value, problems, isComplete } = readJson(text);
  expect(isComplete).toBe(false);
  expect(problems[0]?.message).toContain(problem);
  if (kept !== "") expect(printJson(value ?? null).replace(/\s/g, "")).toBe(kept);
});

test("a broken document of a newer version opens without losing anything", () => {
  const text = `{"euphrates": 9, "name": 5, "shape": "round",
    "variables": {"a": 7, "b": {"default": 1, "unit": "s"}},
    "modules": [{"id": "x", "module": "scan", "count": -3, "colour": "red"}, 12,
      {"id": "x", "module": "sort"}, {"id": "y", "module": "of_tomorrow", "workers": [1]}],
    "queues": [{"from": "x", "to": "gone", "queue": "fast"}, {"from": 1}],
    "layout": {"positions": {"x": [1, 2]}, "zoom": 2}}`;
  const { flow, problems } = openDocument(text);
  expect(flow.modules.map(({ id }) => id)).toEqual(["x", "y"]);
  expect(problems.map(problemText).join("\n")).toMatchInlineSnapshot(`
    "\`name\` is not a text
    the flow is of version 9 (this program reads up to 1: upgrade it)
    variable a: is no object
    module x: \`count\` is not a whole number
    module 2: is no module: it needs \`id\` and \`module\`
    two modules have the id \`x\` (it is kept, but not drawn: give it another id in the JSON)
    module y: \`workers\` is not a list of texts
    queue 1: \`queue\` is not one of distributed, pairwise, broadcast, keyed
    queue 2: is no queue: it needs \`from\` and \`to\`"
  `);
  const before = readJson(text).value ?? null;
  expect(leaves(documentJson(flow)).sort()).toEqual(leaves(before).sort());
  const moved = rename(flow, "x", "z");
  expect(leaves(documentJson(moved))).toContain('.modules[].colour="red"');
});

test("any JSON object round-trips through open and write", () => {
  forSeeds(1000, (random) => {
    const before = spoilt(documentJson(random.flow()), random);
    if (!isObject(before)) return;
    const { flow } = openJson(before);
    const after = documentJson(flow);
    const written = new Set(leaves(after));
    expect(leaves(before).filter((leaf) => !written.has(leaf))).toEqual([]);
    expect(printJson(documentJson(openJson(after).flow))).toBe(printJson(after));
  });
});

/** The value with random parts replaced. */
function spoilt(value: Json, random: Random): Json {
  if (random.chance(0.05)) return random.json();
  if (isList(value)) return value.map((item) => spoilt(item, random));
  if (!isObject(value)) return value;
  const members = [...value].map(([key, inner]) => [key, spoilt(inner, random)] as const);
  return new Map(random.chance(0.1) ? [...members, [random.text(), random.json()]] : members);
}

test("document fields equal those of the Rust schema", () => {
  const everything =
    openDocument(`{"euphrates": 1, "name": "x", "variables": {"v": {"default": 1, "doc": "d"}},
    "modules": [{"id": "a", "module": "m", "config": {}, "count": 1, "per_worker": 1,
      "workers": ["w"]}],
    "queues": [{"from": "a", "output": 0, "to": "a", "input": 0, "queue": "keyed", "bytes_max": 1}],
    "layout": {}}`);
  expect(everything.problems).toEqual([]);
  const written = documentJson(everything.flow);
  const { properties } = schema;
  expect([...written.keys()]).toEqual(Object.keys(properties));
  const first = (key: string): Json => {
    const list = written.get(key);
    const one = isList(list) ? list[0] : isObject(list) ? [...list.values()][0] : undefined;
    return [...(isObject(one) ? one.keys() : [])];
  };
  expect(first("variables")).toEqual(
    Object.keys(properties.variables.additionalProperties.properties),
  );
  expect(first("modules")).toEqual(Object.keys(properties.modules.items.properties));
  expect(first("queues")).toEqual(Object.keys(properties.queues.items.properties));
});

test("queue kinds equal those of the Rust schema", () => {
  const [kinds] = schema.properties.queues.items.properties.queue.anyOf;
  const words = kinds !== undefined && "oneOf" in kinds ? kinds.oneOf : undefined;
  expect(words?.map((kind) => kind.const)).toEqual([...QUEUE_KINDS]);
});

test("module schemas use only supported keywords", () => {
  const known = new Set(
    (
      "type const oneOf anyOf items properties required additionalProperties default " +
      "description format minimum minLength maxLength title $schema x-python"
    ).split(" "),
  );
  const walk = (schema: Schema | boolean): void => {
    if (typeof schema === "boolean") return;
    expect(Object.keys(schema).filter((key) => !known.has(key))).toEqual([]);
    for (const inner of [...(schema.oneOf ?? []), ...(schema.anyOf ?? [])]) walk(inner);
    for (const inner of Object.values(schema.properties ?? {})) walk(inner);
    if (schema.items !== undefined) walk(schema.items);
  };
  for (const spec of BUILT_IN.values()) walk(spec.config);
});

test("undo and redo of a thousand random edit sequences are the identity", () => {
  let edits = 0;
  forSeeds(1000, (random) => {
    let history = newHistory(random.chance(0.5) ? newFlow() : random.flow());
    const texts = [writeDocument(history.now)];
    for (let step = 0; step < 25; step += 1) {
      const { flow, what } = randomEdit(history.now, random);
      if (flow !== history.now) texts.push(writeDocument(flow));
      history = pushStep(history, flow, what);
    }
    edits += texts.length - 1;
    const last = texts.length - 1;
    for (let i = last; i > 0; i -= 1) {
      expect(writeDocument(history.now)).toBe(texts[i]);
      history = undo(history);
    }
    expect(writeDocument(history.now)).toBe(texts[0]);
    expect(undo(history)).toBe(history);
    for (let i = 1; i <= last; i += 1) {
      history = redo(history);
      expect(writeDocument(history.now)).toBe(texts[i]);
    }
    expect(redo(history)).toBe(history);
  });
  expect(edits).toBeGreaterThan(10_000);
});

test("edited flows round-trip and can be written as code", () => {
  forSeeds(200, (random) => {
    let flow = newFlow();
    for (let step = 0; step < 40; step += 1) flow = randomEdit(flow, random).flow;
    expect(writeDocument(openDocument(writeDocument(flow)).flow)).toBe(writeDocument(flow));
    expect(writePython(flow, BUILT_IN)).toContain("import euphrates as eu");
  });
});

test("typed letters merge into one undo step until it is closed", () => {
  let history = newHistory(newFlow("a"));
  for (const name of ["ab", "abc"])
    history = pushStep(history, { ...history.now, name }, "name", "name");
  history = pushStep(closeStep(history), { ...history.now, name: "abcd" }, "name", "name");
  expect(undo(history).now.name).toBe("abc");
  expect(undo(undo(history)).now.name).toBe("a");
  for (let i = 0; i < 2 * STEPS_MAX; i += 1)
    history = pushStep(history, newFlow(String(i)), "name");
  expect(history.past.length).toBe(STEPS_MAX);
});

test("an impossible queue is refused with the reason", () => {
  const flow = place(chain("scan", "filter", "collect"), "join").flow;
  const why = (from: string, to: string, port?: string) => {
    const ends = [
      { id: from, port: undefined },
      { id: to, port },
    ] as const;
    const problem = attachProblem(flow, BUILT_IN, queueBetween(flow, BUILT_IN, ...ends));
    return problem && problemText(problem);
  };
  expect(why("collect_1", "filter_1")).toBe("module collect_1: `collect` has no outputs");
  expect(why("join_1", "scan_1")).toBe("module scan_1: `scan` has no inputs");
  expect(why("scan_1", "join_1")).toBe(
    "module scan_1: output `out` is attached to `filter_1` and to `join_1` " +
      "(place a `tee` between them)",
  );
  expect(why("join_1", "collect_1")).toContain("input `in` is attached twice (place a `union`");
  expect(why("join_1", "join_1", "right")).toContain("cycle through join_1");
  expect(why("join_1", "collect_2")).toContain(
    "no module named `collect_2` (did you mean `collect_1`",
  );
  expect(why("join_1", "filter_1", "side")).toContain("no port named `side` (known: in)");
});

test("a queue is refused exactly if the check reports it", () => {
  let refused = 0;
  forSeeds(300, (random) => {
    let flow = newFlow();
    for (let step = 0; step < 30; step += 1) flow = randomEdit(flow, random).flow;
    if (flow.modules.length === 0) return;
    const end = () => ({
      id: random.pick(flow.modules).id,
      port: random.maybe(() => random.below(2)),
    });
    const queue = queueBetween(flow, BUILT_IN, end(), end());
    const attached = { ...flow, queues: [...flow.queues, queue] };
    const found = check(attached, BUILT_IN).find((found) => found.queue === flow.queues.length);
    const reason = attachProblem(flow, BUILT_IN, queue);
    expect(reason === undefined).toBe(found === undefined);
    if (reason !== undefined) refused += 1;
  });
  expect(refused).toBeGreaterThan(50);
});

test("queues take the ports of a `many` side in order", () => {
  let flow = chain("scan", "tee");
  for (const _ of [1, 2, 3]) {
    const { flow: placed, id } = place(flow, "collect");
    flow = attach(placed, BUILT_IN, newQueue("tee_1", id));
  }
  expect(check(flow, BUILT_IN).map(({ message }) => message)).toEqual(["missing field `path`"]);
});

test("the check reports all problems with their places", () => {
  const flow = openDocument(`{"euphrates": 1, "name": "x", "modules": [
    {"id": "a", "module": "scna"},
    {"id": "b", "module": "limit", "config": {"rows": "ten", "of": 1}, "count": 3},
    {"id": "c", "module": "union"},
    {"id": "d", "module": "filter", "config": {"where": {"$var": "w"}}}],
    "queues": [{"from": "b", "to": "d"}, {"from": "d", "to": "b"},
    {"from": "a", "to": "e"}]}`).flow;
  expect(
    check(flow, BUILT_IN).map((found) => `${found.module ?? found.queue} ${problemText(found)}`),
  ).toMatchInlineSnapshot(`
    [
      "2 queue: no module named \`e\` (known: a, b, c, d)",
      "c output \`out\` goes nowhere (attach it to a module, for example \`collect\` or \`save\`)",
      "c no input is attached (attach at least one)",
      "0 the flow has a cycle through b, d (remove one of the queues between them)",
      "1 the flow has a cycle through b, d (remove one of the queues between them)",
      "a no module named \`scna\` (did you mean \`scan\`?)",
      "b "ten" is not a whole number",
      "b no option named \`of\` (known: rows, offset)",
      "b \`limit\` cannot have 3 instances (leave out count)",
      "d no variable named \`w\` (there is no variable yet)",
    ]
  `);
});

test("splicing keeps the queue's kind at its consumer", () => {
  let flow = chain("scan", "count");
  flow = { ...flow, queues: [{ ...newQueue("scan_1", "count_1"), queue: "broadcast", output: 0 }] };
  const { flow: placed, id } = place(flow, "filter");
  const spliced = splice(placed, BUILT_IN, 0, id);
  expect(spliced.queues).toMatchObject([
    { from: "scan_1", output: 0, to: "filter_1" },
    { from: "filter_1", to: "count_1", queue: "broadcast" },
  ]);
  expect(spliced.queues[0]?.queue).toBeUndefined();
  expect(reason(() => splice(place(flow, "scan").flow, BUILT_IN, 0, "scan_2"))).toContain(
    "no inputs",
  );
});

test("renaming a module updates its queues and position", () => {
  const flow = withPositions(chain("scan", "count"), new Map([["scan_1", { x: 5, y: 6 }]]));
  const renamed = rename(flow, "scan_1", "source");
  expect(renamed.queues[0]?.from).toBe("source");
  expect(positionsOf(renamed).get("source")).toEqual({ x: 5, y: 6 });
  expect(reason(() => rename(renamed, "source", "count_1"))).toContain("two modules have the id");
  expect(positionsOf(removeModules(renamed, new Set(["source"]))).size).toBe(0);
});

test("an option can be bound to a variable, which can be renamed and removed", () => {
  const { flow } = place(newFlow(), "scan", { config: new Map([["path", "a.csv"]]) });
  const bound = bind(flow, "scan_1", "path", "from");
  expect(bound.variables.get("from")?.default).toBe("a.csv");
  const renamed = renameVariable(bound, "from", "source");
  expect(usesOf(renamed, "source")).toEqual([{ module: "scan_1", option: "path" }]);
  expect(moduleOf(removeVariable(renamed, "source"), "scan_1")?.config.get("path")).toBe("a.csv");
  expect(moduleOf(unbind(renamed, "scan_1", "path"), "scan_1")?.config.get("path")).toBe("a.csv");
  const empty = setVariable(renamed, "source", { default: undefined });
  expect(reason(() => removeVariable(empty, "source"))).toContain("has no default to leave there");
});

test("a variable's default is checked against the options that use it", () => {
  const { flow } = place(newFlow(), "limit", { config: new Map([["rows", 5]]) });
  const bound = setVariable(bind(flow, "limit_1", "rows", "most"), "most", { default: "many" });
  expect(check(bound, BUILT_IN).map(({ message }) => message)).toContain(
    '"many" is not a whole number',
  );
});

test("the size of a file is a number or text", () => {
  const problems = (size: Json) => {
    const config = new Map<string, Json>([
      ["path", "out/"],
      ["file_bytes", size],
    ]);
    const { flow } = place(newFlow(), "save_dataset", { config });
    return check(flow, BUILT_IN).filter(({ message }) => message.includes("whole number or"));
  };
  expect([64_000_000, "64MB", null].flatMap(problems)).toEqual([]);
  expect(problems(true).map(({ message }) => message)).toEqual([
    "true is not a whole number or a text",
  ]);
});

test("count and per_worker replace each other", () => {
  const flow = setInstances(chain("scan"), "scan_1", { count: 4 });
  expect(setInstances(flow, "scan_1", { per_worker: 2 }).modules[0]).toMatchObject({
    count: undefined,
    per_worker: 2,
  });
  expect(setInstances(flow, "scan_1", { workers: ["gpu"] }).modules[0]?.count).toBe(4);
});

test("modules are copied as text and pasted with new ids", () => {
  const flow = bind(chain("scan", "filter", "count"), "filter_1", "where", "condition");
  const text = copyModules(flow, new Set(["scan_1", "filter_1"]));
  const { flow: pasted, ids } = pasteText(flow, BUILT_IN, text, { x: 20, y: 20 });
  expect([...ids]).toEqual(["scan_2", "filter_2"]);
  expect(pasted.queues.at(-1)).toMatchObject({ from: "scan_2", to: "filter_2" });
  const python = pasteText(newFlow(), BUILT_IN, writePython(flow, BUILT_IN), { x: 0, y: 0 }).flow;
  expect(sameJson(documentJson(python).get("modules"), documentJson(flow).get("modules"))).toBe(
    true,
  );
  expect(reason(() => pasteText(flow, BUILT_IN, "hello world", { x: 0, y: 0 }))).toContain(
    "no flow",
  );
});

test("ten thousand modules open, are checked and written as code", () => {
  const modules = Array.from({ length: 10_000 }, (_, i) => `{"id": "m${i}", "module": "count"}`);
  const queues = modules.slice(1).map((_, i) => `{"from": "m${i}", "to": "m${i + 1}"}`);
  const text = `{"euphrates": 1, "name": "x", "modules": [${modules}], "queues": [${queues}]}`;
  const { flow, problems } = openDocument(text);
  expect(problems).toEqual([]);
  expect(check(flow, BUILT_IN).length).toBe(2);
  expect(writePython(flow, BUILT_IN).split("\n").length).toBeGreaterThan(20_000);
});

test("sizes parse and print exactly", () => {
  const sizes = ["1000", "64MB", "1.5GiB", "8 mib", "1e9x", "", "0", "-1", "1i"];
  expect(sizes.map(parseBytes)).toEqual([
    1000,
    64_000_000,
    1_610_612_736,
    8_388_608,
    ...Array(5).fill(undefined),
  ]);
  forSeeds(200, (random) => {
    const bytes = 1 + random.below(2 ** random.below(45));
    expect(parseBytes(printBytes(bytes))).toBe(bytes);
  });
  expect([8 << 20, 1_500_000, 1001, 2_000_000_000].map(printBytes)).toEqual([
    "8MiB",
    "1500KB",
    "1001",
    "2GB",
  ]);
});

test("only similar names are suggested", () => {
  const names = ["filter", "sort", "sample"];
  expect(didYouMean("filtr", names)).toBe("filter");
  expect(didYouMean("SROT", names)).toBe("sort");
  expect(didYouMean("parquet", names)).toBeUndefined();
  for (const word of ["", "c", "zz"]) expect(didYouMean(word, ["a", "id"])).toBeUndefined();
});
