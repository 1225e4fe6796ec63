// Completion of SQL.

import { expect, test } from "vitest";
import { acceptMatch, completeSql } from "../src/document/forms/sqlCompletion";

const NAMES = { columns: ["amount", "city", "first name"], tables: ["input"], isQuery: true };

/** The matches at `|`. */
function matches(text: string, names = NAMES): string[] {
  const caret = text.indexOf("|");
  return completeSql(text.replace("|", ""), caret, names).matches.map(({ text }) => text);
}

test.each([
  ["select am|", ["amount"]],
  ["select amount|", []],
  ["select AM|", ["amount"]],
  ["select fi|", ['"first name"']],
  ['select "fi|', ['"first name"']],
  ['select "first na|', ['"first name"']],
  ["select city from in|", ["input", "inner"]],
  ["select ci| from input", ["city"]],
  ["select |", []],
  ["select 'am|", []],
  ["select city -- am|", []],
  ["select /* x */ am|", ["amount"]],
  ["sel|", ["select"]],
])("%s is completed", (text, wanted) => {
  expect(matches(text)).toEqual(wanted);
});

test("a condition has columns and words, but neither tables nor clauses", () => {
  const names = { ...NAMES, tables: [], isQuery: false };
  expect(matches("i|", names)).toEqual(["in", "is"]);
  expect(matches("sel|", names)).toEqual([]);
});

test("a match replaces the word before the caret", () => {
  const text = "select fi from input";
  const completion = completeSql(text, 9, NAMES);
  const [match] = completion.matches;
  if (match === undefined) throw new Error("no match");
  expect(acceptMatch(text, 9, completion, match)).toEqual({
    text: 'select "first name" from input',
    caret: 19,
  });
});
