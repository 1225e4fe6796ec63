// Colours of code.

import { expect, test } from "vitest";
import { highlight } from "../src/app/code/highlight";

test("a line is split into coloured parts that together are its text", () => {
  const line = `x = eu.scan("a \\" b", rows=10)  # all of 'it'`;
  const parts = highlight(line);
  expect(parts.map(({ text }) => text).join("")).toBe(line);
  expect(parts.flatMap(({ text, kind }) => (kind ? [`${kind} ${text}`] : []))).toEqual([
    "call scan",
    'string "a \\" b"',
    "number 10",
    "comment # all of 'it'",
  ]);
});
