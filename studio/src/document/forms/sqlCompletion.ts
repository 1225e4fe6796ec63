// Completion of SQL: the names that can follow at a position of a condition or a query.

import { EXPRESSION_WORDS, QUERY_WORDS, sqlName } from "./sqlName";

const FUNCTIONS = "abs avg coalesce count length lower max min round substring sum trim upper";

/** What can be named at a place. */
export interface SqlNames {
  readonly columns: readonly string[];
  readonly tables: readonly string[];
  /** Whether it is a query, not only an expression. */
  readonly isQuery: boolean;
}

export interface SqlMatch {
  readonly text: string;
  readonly kind: "column" | "table" | "word";
}

export interface Completion {
  /** Where the word begins that a match replaces. */
  readonly from: number;
  readonly matches: readonly SqlMatch[];
}

const MATCHES_MAX = 8;
const NO_COMPLETION: Completion = { from: 0, matches: [] };

/** The names that continue the word before the caret; none within a text or a comment. */
export function completeSql(text: string, caret: number, names: SqlNames): Completion {
  const before = text.slice(0, caret);
  const word = /"?[\p{L}_][\p{L}\p{N}_ ]*$/u.exec(before)?.[0].replace(/^[^"].* /u, "") ?? "";
  if (word === "" || word.trimEnd() !== word || isQuoted(before)) return NO_COMPLETION;
  const start = word.replace(/^"/, "").toLowerCase();
  const expression = `${EXPRESSION_WORDS} ${FUNCTIONS}`;
  const words = names.isQuery ? `${QUERY_WORDS} ${expression}` : expression;
  const all: readonly SqlMatch[] = [
    ...names.columns.map((name) => ({ text: sqlName(name), kind: "column" as const })),
    ...names.tables.map((name) => ({ text: sqlName(name), kind: "table" as const })),
    ...words.split(" ").map((text) => ({ text, kind: "word" as const })),
  ];
  const fits = all.filter(({ text }) => {
    const plain = text.replace(/^"/, "").toLowerCase();
    return plain.startsWith(start) && text.toLowerCase() !== word.toLowerCase();
  });
  const distinct = fits.filter(({ text }, i) => fits.findIndex((one) => one.text === text) === i);
  return { from: caret - word.length, matches: distinct.slice(0, MATCHES_MAX) };
}

/** The text after a match was taken, and where the caret is then. */
export function acceptMatch(
  text: string,
  caret: number,
  { from }: Completion,
  match: SqlMatch,
): { readonly text: string; readonly caret: number } {
  const end = from + match.text.length;
  return { text: text.slice(0, from) + match.text + text.slice(caret), caret: end };
}

/** Whether a position is within a text or a comment. */
function isQuoted(before: string): boolean {
  const left = before.replace(/'[^']*'|"[^"]*"|--[^\n]*\n|\/\*[\s\S]*?\*\//g, "");
  return /'|--|\/\*/.test(left);
}
