// Options whose values are words of a fixed list, which their descriptions name in backquotes.

import { optionsOf, type Schema, type Specs } from "../specs";

/** The names of such options, in any module. */
const WORD_OPTIONS: ReadonlySet<string> = new Set([
  "compression",
  "engine",
  "format",
  "input",
  "layout",
  "mirrors",
  "mode",
  "on_error",
  "output",
]);

/** The compressions; their descriptions also name formats. */
const CODECS: ReadonlySet<string> = new Set([
  "none",
  "gzip",
  "bzip2",
  "lz4",
  "snappy",
  "brotli",
  "zstd",
]);

/** The words that an option takes; none for an option with free text. */
export function choicesOf(
  specs: Specs,
  module: string,
  option: string,
  { type, description = "" }: Schema,
): readonly string[] {
  if (!WORD_OPTIONS.has(option) || ![type].flat().includes("string")) return [];
  const words = [...description.matchAll(/`([a-z][a-z0-9_]*)`/g)].map(([, word]) => word ?? "");
  const fitting = option === "compression" ? words.filter((word) => CODECS.has(word)) : words;
  if (fitting.length >= 2) return [...new Set(fitting)];
  // One that is described by another: `As for save`, `as the input if absent`.
  const other = /^As for `(\w+)`/.exec(description)?.[1];
  if (other !== undefined && other !== module) return choicesAt(specs, other, option);
  const sibling = /; as the (\w+) if absent/.exec(description)?.[1];
  return sibling === undefined || sibling === option ? [] : choicesAt(specs, module, sibling);
}

function choicesAt(specs: Specs, module: string, option: string): readonly string[] {
  const schema = optionsOf(specs.get(module)).get(option);
  return schema === undefined ? [] : choicesOf(specs, module, option, schema);
}
