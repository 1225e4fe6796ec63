// References of modules to Python code.

import { expect, test } from "vitest";
import { definitionLine, scriptReference } from "../src/document/code/pythonFile";
import { newModule } from "../src/document/flow";

test.each([
  ["function", "clean.py:tidy", { path: "clean.py", name: "tidy" }],
  ["module", "in/my code.py:Clean", { path: "in/my code.py", name: "Clean" }],
  ["function", "shop.clean:tidy", undefined],
  ["function", "clean.py", undefined],
  ["where", "clean.py:tidy", undefined],
])("%s %s refers to %j", (option, value, wanted) => {
  const module = newModule("a", "map", new Map([[option, value]]));
  expect(scriptReference(module)).toEqual(wanted);
});

test("definitions are found at the top level of a file", () => {
  const text = "import x\n\nclass A:\n    def tidy(self): ...\nasync def run(): ...\ntidy = x.y\n";
  expect(["A", "A.tidy", "run", "tidy", "gone"].map((name) => definitionLine(text, name))).toEqual([
    3,
    3,
    5,
    6,
    undefined,
  ]);
});
