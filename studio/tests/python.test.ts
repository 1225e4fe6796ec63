// Writes flows as Python and reads them back, and reads Python as people write it.

import { expect, test } from "vitest";
import { writeRust } from "../src/document/code/writeRust";
import type { Flow } from "../src/document/flow";
import { isList, isObject, type Json } from "../src/document/json";
import { openDocument } from "../src/document/openDocument";
import { readPython } from "../src/document/python/readPython";
import { writePython } from "../src/document/python/writePython";
import { BUILT_IN } from "../src/document/specs";
import { documentJson, writeDocument } from "../src/document/writeDocument";
import { forSeeds } from "./randomFlow";

const documents = import.meta.glob<string>("./flows/*.json", {
  query: "?raw",
  import: "default",
  eager: true,
});
const codes = import.meta.glob<string>("./flows/*.{python,rust}", {
  query: "?raw",
  import: "default",
  eager: true,
});

/** A form that is equal for documents that differ only in the order of keys. */
function canonical(value: Json): unknown {
  if (isObject(value)) return new Map([...value].sort().map(([k, v]) => [k, canonical(v)]));
  return isList(value) ? value.map(canonical) : value;
}

function reread(flow: Flow): Flow {
  const code = writePython(flow, BUILT_IN);
  const { flow: read, problems, ignoredLines } = readPython(code, BUILT_IN);
  expect(ignoredLines).toEqual([]);
  if (read === undefined) throw new Error(`${JSON.stringify(problems)}\n${code}`);
  return read;
}

function read(code: string): Flow {
  const { flow, problems } = readPython(code, BUILT_IN);
  expect(problems).toEqual([]);
  if (flow === undefined) throw new Error("no flow");
  return flow;
}

/** The first problem of a program, as `line:column message (remedy)`. */
function refusal(code: string): string {
  const [problem] = readPython(`import euphrates as eu\n${code}`, BUILT_IN).problems;
  if (problem === undefined) throw new Error("it was read");
  const { line, column, message, remedy } = problem;
  return `${line - 1}:${column} ${message}${remedy ? ` (${remedy})` : ""}`;
}

test.each(Object.keys(documents))("%s has the same code as from Rust", (path) => {
  const { flow, problems } = openDocument(documents[path] ?? "");
  expect(problems).toEqual([]);
  expect(writePython(flow, BUILT_IN)).toBe(codes[path.replace(".json", ".python")]);
  expect(writeRust(flow)).toBe(codes[path.replace(".json", ".rust")]);
  expect(canonical(documentJson(reread(flow)))).toEqual(canonical(documentJson(flow)));
});

const written = import.meta.glob<string>("./written/*.{py,json}", {
  query: "?raw",
  import: "default",
  eager: true,
});
const programs = Object.keys(written).filter((path) => path.endsWith(".py"));

test.each(programs)("%s is read as the document that Python builds", (path) => {
  const flow = read(written[path] ?? "");
  const made = openDocument(written[path.replace(".py", ".json")] ?? "").flow;
  expect(canonical(documentJson(flow))).toEqual(canonical(documentJson(made)));
});

test("a thousand hostile flows round-trip through Python", () => {
  forSeeds(1000, (random) => {
    const flow = random.flow();
    expect(canonical(documentJson(reread(flow)))).toEqual(canonical(documentJson(flow)));
    expect(writeDocument(openDocument(writeDocument(flow)).flow)).toBe(writeDocument(flow));
  });
});

test("handwritten chains, arrows, ports, sums and names are read", () => {
  const flow = read(`
"""A flow."""
import euphrates as eu
from shop.clean import tidy as clean
import shop.words

COLUMNS = ["a", "b"]  # both
ROWS = 200 * 65_536 + (1 << 20) - -1
make = eu.Flow("another")
flow = eu.Flow("by " 'hand')
path = eu.var("path", default="in" + ".csv", doc='''what
to read''')
source = flow.place(eu.scan(path, columns=COLUMNS), count=2, workers="disk")
(source >> eu.map(clean) >> flow.place(eu.map(shop.words.split), id="split"))
left, right = flow.place(eu.tee()), flow.place(eu.join(on=["a"], how="left"))
flow.attach("split", left, bytes_max="1.5MiB")
left[0] >> right["left"]
left[1] >> right["right"]; flow.chain(right, eu.limit(ROWS), eu.module("collect", {}))
print(flow.explain(), f"{flow}")
assert len(flow.go().collected()) == 2
if __name__ == "__main__":
    report = flow.go()
`);
  expect(flow.name).toBe("by hand");
  expect(flow.modules.map(({ id }) => id).join(" ")).toBe(
    "scan_1 map_1 split tee_1 join_1 limit_1 collect_1",
  );
  expect(flow.variables.get("path")).toMatchObject({ default: "in.csv", doc: "what\nto read" });
  expect(flow.modules[1]?.config.get("function")).toBe("shop.clean:tidy");
  expect(flow.modules[2]?.config.get("function")).toBe("shop.words:split");
  expect(flow.modules[5]?.config.get("rows")).toBe(14155777);
  expect(flow.modules[0]).toMatchObject({ count: 2, workers: ["disk"] });
  expect(flow.queues[2]?.bytes_max).toBe(1572864);
  expect(flow.queues[3]).toMatchObject({ from: "tee_1", output: 0, to: "join_1", input: "left" });
});

test("a single name becomes a list in a call and stays a name in a document", () => {
  const flow = read(`
import euphrates as eu
flow = eu.Flow("x")
flow.chain(eu.scan("a"), eu.sort("price"))
`);
  expect(flow.modules.map(({ config }) => Object.fromEntries(config))).toEqual([
    { path: "a" },
    { by: ["price"] },
  ]);
  const modules = [{ id: "sort_1", module: "sort", config: { by: "price" } }];
  const alone = openDocument(JSON.stringify({ euphrates: 1, name: "x", modules, queues: [] })).flow;
  expect(canonical(documentJson(reread(alone)))).toEqual(canonical(documentJson(alone)));
});

test("ignored lines are reported", () => {
  const code = `import euphrates as eu  # as usual
import os
flow = eu.Flow("x")
# the source
flow.place(eu.scan("a.csv"))
report = flow.go()
if __name__ == "__main__":
    print(report)
`;
  expect(readPython(code, BUILT_IN).ignoredLines).toEqual([1, 2, 4, 6]);
});

test.each([
  ['flow = eu.Flow("x")\nflow.place(eu.scan(f"{x}.csv"))', /^2:20 .*f-string/],
  ['flow = eu.Flow("x")\nflow.place(eu.scan(folder / "a.csv"))', /^2:20 .*`folder` is not known/],
  ['flow = eu.Flow("x")\nfor i in range(3):\n    flow.place(eu.count())', /^2:1 `for` is not run/],
  ['flow = eu.Flow("x")\n[flow.place(eu.count()) for _ in "ab"]', /^2:2 `for` is not read/],
  ['flow = eu.Flow("x")\nflow.place(eu.scna("a"))', /^2:15 .*no `scna` \(did you mean `eu.scan`/],
  ['flow = eu.Flow("x")\nflow.place(eu.scan("a", colums=[]))', /^2:32 .*did you mean `columns`/],
  ['flow = eu.Flow("x")\nflow.place(eu.scan())', /^2:12 eu.scan\(\) needs `path`/],
  ['flow = eu.Flow("x")\nflow.plaec(eu.count())', /^2:6 a flow has no `plaec` \(what builds/],
  ['flow = eu.Flow("x")\nflow.attach("a", "b", queue="best")', /^2:29 there is no such kind/],
  ['flow = eu.Flow("x")\nflow.place(eu.count(), id="a")\nflow.place(eu.count(), id="a")', /^3:27/],
  [
    'def f(b):\n    return b\nflow = eu.Flow("x")\nflow.place(eu.map(f))',
    /^4:19 `f` is defined in/,
  ],
  ['def f(b):\n    b.place(1)\nflow = eu.Flow("x")\nf(flow)', /^4:1 `f` is defined in/],
  ['flow = eu.Flow("x")\nsetattr(flow, "name", 1)', /^2:1 a flow is given to a function/],
  ['flow = eu.Flow("x")\nflow.place(eu.from_arrow({"a": [1]}))', /^2:26 a table lives/],
  ['eu.Flow("x', /^1:9 a text does not end/],
  ["flow = eu.Flow(", /^1:15 a bracket is not closed/],
  ['flow = eu.Flow("x")\nflow.place(eu.limit(1e400))', /^2:21 .*infinite/],
  ["x = 1", /^0:1 the program leaves no flow behind/],
  ['a = eu.Flow("a")\nb = eu.Flow("b")', /several flows/],
  [`flow = eu.Flow("x")\nflow.layout = ${"[".repeat(9999)}${"]".repeat(9999)}`, /too deep/],
  ["flow = ?", /^1:8 `\?` is no Python/],
  ['import os as eu\nflow = eu.Flow("x")', /leaves no flow/],
])("%j is refused with its position", (code, wanted) => {
  expect(refusal(code)).toMatch(wanted);
});

const examples = import.meta.glob<string>("../../examples/*.py", {
  query: "?raw",
  import: "default",
  eager: true,
});

test.each(["01_copy", "03_filter_and_project"])("the example %s is read", (name) => {
  const flow = read(examples[`../../examples/${name}.py`] ?? "");
  expect(writeDocument(reread(flow))).toBe(writeDocument(flow));
});

test("reading mutated code terminates with valid positions", () => {
  forSeeds(300, (random) => {
    const code = writePython(random.flow(), BUILT_IN);
    const at = random.below(code.length);
    const broken = code.slice(0, at) + random.text() + code.slice(at + random.below(9));
    for (const { line, column } of readPython(broken, BUILT_IN).problems) {
      expect(line).toBeGreaterThan(0);
      expect(column).toBeGreaterThan(0);
    }
  });
});
