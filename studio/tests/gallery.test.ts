// The gallery's flows open without problems and are stored exactly as the studio writes them.

import { expect, test } from "vitest";
import { TEMPLATES } from "../src/app/files/templates";
import { canReplace } from "../src/app/run/outputs";
import { check } from "../src/document/check";
import { openDocument } from "../src/document/openDocument";
import { readPython } from "../src/document/python/readPython";
import { writePython } from "../src/document/python/writePython";
import { BUILT_IN } from "../src/document/specs";
import { writeDocument } from "../src/document/writeDocument";

const files = import.meta.glob<string>("../gallery/*.json", {
  query: "?raw",
  import: "default",
  eager: true,
});

test("every gallery file is offered once", () => {
  const offered = TEMPLATES.map(({ name }) => `../gallery/${name}.json`).sort();
  expect(offered).toEqual(Object.keys(files).sort());
  for (const { name, text } of TEMPLATES) expect(text).toBe(files[`../gallery/${name}.json`]);
});

test.each(TEMPLATES)(
  "$title opens, passes the check and round-trips through Python",
  ({ text }) => {
    const { flow, problems, isComplete } = openDocument(text);
    expect(problems).toEqual([]);
    expect(isComplete).toBe(true);
    expect(check(flow, BUILT_IN)).toEqual([]);
    expect(`${writeDocument(flow)}\n`).toBe(text);
    const read = readPython(writePython(flow, BUILT_IN), BUILT_IN);
    expect(read.problems).toEqual([]);
    for (const variable of flow.variables.values()) {
      expect(variable.default).toBeDefined();
      expect(variable.doc).toBeDefined();
    }
  },
);

test.each(["clean", "copy", "external_sort"])(
  "%s writes a file without permission to replace one",
  (template) => {
    const text = TEMPLATES.find(({ name }) => name === template)?.text ?? "";
    const sinks = openDocument(text).flow.modules.filter(({ module }) => module === "save");
    expect(sinks).toHaveLength(1);
    expect(sinks.every(canReplace)).toBe(true);
  },
);
