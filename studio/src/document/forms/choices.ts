// Options whose values are words of a fixed list, which their descriptions name in backquotes.

import type { Schema } from "../specs";

/** The names of such options, in any module. */
const WORD_OPTIONS: ReadonlySet<string> = new Set([
  "format",
  "compression",
  "mode",
  "layout",
  "mirrors",
]);

/** The compressions; their descriptions also name formats. */
const CODECS: ReadonlySet<string> = new Set(["none", "gzip", "bzip2", "lz4", "snappy", "zstd"]);

/** The words that an option takes; none for an option with free text. */
export function choicesOf(option: string, { type, description = "" }: Schema): readonly string[] {
  if (!WORD_OPTIONS.has(option) || ![type].flat().includes("string")) return [];
  const words = [...description.matchAll(/`([a-z][a-z0-9_]*)`/g)].map(([, word]) => word ?? "");
  const fitting = option === "compression" ? words.filter((word) => CODECS.has(word)) : words;
  return fitting.length < 2 ? [] : [...new Set(fitting)];
}
