// Splits a line of Python, Rust or JSON into coloured parts. It knows no grammar: a string that
// goes over several lines is coloured line by line.

export interface CodePart {
  readonly text: string;
  readonly kind: "comment" | "string" | "number" | "keyword" | "call" | undefined;
}

const KEYWORDS =
  "and as def else false False fn for from if import in is let mut None not null or pub return " +
  "self struct true True use with";
const WORDS: ReadonlySet<string> = new Set(KEYWORDS.split(" "));

const PARTS = new RegExp(
  [
    "(?<comment>#(?![[!]).*|\\/\\/.*)",
    `(?<string>"(?:[^"\\\\]|\\\\.)*"?|'(?:[^'\\\\]|\\\\.)*')`,
    "(?<number>\\b\\d[\\w.]*)",
    "(?<word>[A-Za-z_]\\w*)",
  ].join("|"),
  "g",
);

/** The parts of a line; together they are its text. */
export function highlight(line: string): readonly CodePart[] {
  const parts: CodePart[] = [];
  let end = 0;
  for (const match of line.matchAll(PARTS)) {
    if (match.index > end) parts.push({ text: line.slice(end, match.index), kind: undefined });
    const [text] = match;
    end = match.index + text.length;
    parts.push({ text, kind: kindOf(match.groups ?? {}, text, line[end]) });
  }
  if (end < line.length) parts.push({ text: line.slice(end), kind: undefined });
  return parts;
}

function kindOf(
  { comment, string, number }: Readonly<Record<string, string | undefined>>,
  text: string,
  next: string | undefined,
): CodePart["kind"] {
  if (comment !== undefined) return "comment";
  if (string !== undefined) return "string";
  if (number !== undefined) return "number";
  if (WORDS.has(text)) return "keyword";
  return next === "(" ? "call" : undefined;
}
