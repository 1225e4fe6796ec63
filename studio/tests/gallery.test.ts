// The flows to begin with: they open without a problem, and are written as they stand in their
// files.

import { expect, test } from "vitest";
import { TEMPLATES } from "../src/app/templates";
import { check } from "../src/document/check";
import { open } from "../src/document/open";
import { readPython } from "../src/document/python/read";
import { writePython } from "../src/document/python/write";
import { BUILT_IN } from "../src/document/specs";
import { write } from "../src/document/write";

const files = import.meta.glob<string>("../gallery/*.json", {
  query: "?raw",
  import: "default",
  eager: true,
});

test("every file of the gallery is offered, once", () => {
  const offered = TEMPLATES.map(({ name }) => `../gallery/${name}.json`).sort();
  expect(offered).toEqual(Object.keys(files).sort());
  for (const { name, text } of TEMPLATES) expect(text).toBe(files[`../gallery/${name}.json`]);
});

test.each(TEMPLATES)("$title opens, is sound, and says itself in Python", ({ text }) => {
  const { flow, problems, isWhole } = open(text);
  expect(problems).toEqual([]);
  expect(isWhole).toBe(true);
  expect(check(flow, BUILT_IN)).toEqual([]);
  expect(`${write(flow)}\n`).toBe(text);
  const read = readPython(writePython(flow, BUILT_IN), BUILT_IN);
  expect(read.problems).toEqual([]);
  for (const variable of flow.variables.values()) {
    expect(variable.default).toBeDefined();
    expect(variable.doc).toBeDefined();
  }
});
