// Writes flows as Python and reads them back, and reads Python as people write it.

import { expect, test } from "vitest";
import { codeBlocksOf, NO_BLOCKS, withCodeBlocks } from "../src/document/code/codeBlocks";
import { writeRust } from "../src/document/code/writeRust";
import { removeModules, rename } from "../src/document/edits";
import type { Flow } from "../src/document/flow";
import { isList, isObject, type Json } from "../src/document/json";
import { mergeCode, withoutLayout } from "../src/document/mergeCode";
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
const examples = import.meta.glob<string>("../../examples/*.py", {
  query: "?raw",
  import: "default",
  eager: true,
});

const programs = Object.keys(written).filter((path) => path.endsWith(".py"));

test.each(programs)("%s is read as the document that Python builds", (path) => {
  const flow = withCodeBlocks(read(written[path] ?? ""), NO_BLOCKS);
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

const COMMENTED = `"""What it does."""
# the library
import euphrates as eu
import os

def clean(batch):
    # nothing yet
    return batch

flow = eu.Flow("x")
# where it comes from
flow.variable("path", default="a.csv")

# the source
scan_1 = flow.place(eu.scan(eu.var("path")))
# nobody reads
# this
save_1 = flow.place(eu.save("b.csv"))

# all of it
flow.attach(scan_1, save_1)

for name in os.listdir("."):
    print(name)

if __name__ == "__main__":
    report = flow.go()  # here
    print(report)
`;

test("comments, definitions and loops are kept at their places", () => {
  const flow = read(COMMENTED);
  const lines = (text: string) => text.split("\n").filter((line) => line !== "");
  const code = writePython(withoutLayout(flow), BUILT_IN, codeBlocksOf(flow));
  expect(lines(code)).toEqual(lines(COMMENTED));
  const again = read(code);
  expect(codeBlocksOf(again)).toEqual(codeBlocksOf(flow));
  expect(writePython(withoutLayout(again), BUILT_IN, codeBlocksOf(again))).toBe(code);
  expect(openDocument(writeDocument(flow)).flow.layout).toEqual(flow.layout);
});

test("another flow of the program is kept as code", () => {
  const flow = read(examples["../../examples/01_copy.py"] ?? "");
  const blocks = codeBlocksOf(flow);
  expect([...blocks.keys()].sort()).toEqual(["flow", "import", "main", "queues"]);
  expect(blocks.get("flow")?.split("\n")).toEqual([
    'make = eu.Flow("make")',
    'make.chain(eu.generate("integers", rows=1000), eu.write("in.1", overwrite=True))',
    "make.go()",
  ]);
  expect(blocks.get("queues")).toBe("# a distributed queue, because write needs no order");
});

test("kept code follows a renamed module, and stays when its module is removed", () => {
  const flow = read(COMMENTED);
  expect(codeBlocksOf(rename(flow, "scan_1", "source")).get("module:source")).toBe("# the source");
  const left = removeModules(flow, new Set(["scan_1"]));
  expect(codeBlocksOf(left).get("end")).toContain("# the source");
  expect(writePython(withoutLayout(left), BUILT_IN, codeBlocksOf(left))).toContain("# the source");
});

test("edited comments replace those of the flow, and are an edit by themselves", () => {
  const flow = read(COMMENTED);
  const merged = mergeCode(flow, read(COMMENTED.replace("# the source", "# the input")));
  expect(codeBlocksOf(merged).get("module:scan_1")).toBe("# the input");
  expect(mergeCode(flow, read(COMMENTED)).layout).toBe(flow.layout);
  const bare = read(writePython(withoutLayout(flow), BUILT_IN));
  expect(codeBlocksOf(mergeCode(flow, bare)).size).toBe(0);
});

test("a comment beside a statement moves above it; a statement beside one is reported", () => {
  const { flow, ignoredLines } = readPython(
    `import euphrates as eu
flow = eu.Flow("x")
a = 1; b = 2
flow.place(eu.limit(a))  # few
c = 3; flow.place(eu.count())
`,
    BUILT_IN,
  );
  expect(flow && [...codeBlocksOf(flow)]).toEqual([["module:limit_1", "a = 1; b = 2\n# few"]]);
  expect(ignoredLines).toEqual([5]);
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

test.each(["01_copy", "03_filter_and_project"])("the example %s is read", (name) => {
  const flow = read(examples[`../../examples/${name}.py`] ?? "");
  const bare = withCodeBlocks(flow, NO_BLOCKS);
  expect(writeDocument(reread(bare))).toBe(writeDocument(bare));
  const code = writePython(bare, BUILT_IN, codeBlocksOf(flow));
  expect(codeBlocksOf(read(code))).toEqual(codeBlocksOf(flow));
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
