// Forms: completion of SQL, names in expressions, and options that are menus.

import { expect, test } from "vitest";
import { choicesOf } from "../src/document/forms/choices";
import { acceptMatch, completeSql } from "../src/document/forms/sqlCompletion";
import { sqlName } from "../src/document/forms/sqlName";
import { BUILT_IN, optionsOf } from "../src/document/specs";

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

test.each([
  ["amount", "amount"],
  ["Unit price", '"Unit price"'],
  ["Stadt", '"Stadt"'],
  ["order", '"order"'],
  ["date", '"date"'],
  ["1st", '"1st"'],
  ['5" pipe', '"5"" pipe"'],
])("an expression names the column %s as %s", (name, written) => {
  expect(sqlName(name)).toBe(written);
});

test.each([
  ["scan", "on_error", ["fail", "null", "skip"]],
  ["map", "on_error", ["skip", "fail"]],
  ["external_sql", "engine", ["duckdb", "polars"]],
  ["exec", "input", ["csv", "json_lines", "arrow_ipc", "records", "lines"]],
  ["exec", "output", ["csv", "json_lines", "arrow_ipc", "records", "lines"]],
  ["save_dataset", "mode", ["error", "append", "overwrite", "overwrite_partitions"]],
  ["write", "layout", ["chained", "spread"]],
  ["filter", "where", []],
  ["save", "path", []],
])("%s.%s has a menu of its words", (module, option, words) => {
  const schema = optionsOf(BUILT_IN.get(module)).get(option);
  expect(choicesOf(BUILT_IN, module, option, schema ?? {})).toEqual(words);
});

test("the compressions of a dataset are those of a file", () => {
  const of = (module: string) => {
    const schema = optionsOf(BUILT_IN.get(module)).get("compression");
    return choicesOf(BUILT_IN, module, "compression", schema ?? {});
  };
  expect(of("save_dataset")).toEqual(of("save"));
  expect(of("save")).toContain("zstd");
});
