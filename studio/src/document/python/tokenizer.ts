// Tokenizes Python into logical lines.

import { floatOf, type Numeral, wholeOf } from "../numeral";

/** A position in the source text; both count from 1. */
export interface SourcePosition {
  readonly line: number;
  readonly column: number;
}

export type Token = SourcePosition &
  (
    | { readonly kind: "name" | "operator"; readonly text: string }
    | { readonly kind: "text"; readonly value: string }
    | { readonly kind: "number"; readonly value: number | Numeral }
    /** A literal that is valid Python, but cannot be part of a flow. */
    | { readonly kind: "unsupported"; readonly text: string; readonly why: string }
    | { readonly kind: "end" }
  );

/** A logical line, with explicit and implicit joins resolved and split at semicolons. */
export interface LogicalLine {
  readonly indent: number;
  /** The line on which its last token ends. */
  readonly lastLine: number;
  /** The last one has kind `end`. */
  readonly tokens: readonly Token[];
}

/** An error with its position and remedy. */
export class CodeError extends Error {
  constructor(
    message: string,
    readonly place: SourcePosition,
    readonly remedy?: string,
  ) {
    super(message);
  }
}

const NAME = /[\p{XID_Start}_][\p{XID_Continue}]*/uy;
const DIGITS = "[0-9](?:_?[0-9])*";
const NUMBER = new RegExp(
  [
    "0[xX](?:_?[0-9a-fA-F])+",
    "0[oO](?:_?[0-7])+",
    "0[bB](?:_?[01])+",
    `(?:${DIGITS})?\\.?(?:${DIGITS})?(?:[eE][+-]?${DIGITS})?[jJ]?`,
  ].join("|"),
  "y",
);
const OPERATOR =
  /\*\*=|\/\/=|>>=|<<=|\.\.\.|[-+*/%@&|^<>=!]=|->|:=|\*\*|\/\/|<<|>>|[-+*/%@&|^~<>()[\]{},:.;=]/y;
const STRING = /([rRbBuUfFtT]{0,2})("""|'''|"|')/y;
const ESCAPE = new RegExp(
  [
    "\\\\(?:(\\n)",
    "([abfnrtv\\\\'\"])",
    "([0-7]{1,3})",
    "x([0-9a-fA-F]{2})",
    "u([0-9a-fA-F]{4})",
    "U([0-9a-fA-F]{8})",
    "([xuUN]))",
  ].join("|"),
  "g",
);
const SPACE = /[ \t\f]*(?:\\\r?\n[ \t\f]*)*/y;
const BRACKETS: Readonly<Record<string, string>> = { "(": ")", "[": "]", "{": "}" };

/** The logical lines of a program, and its comments by line. */
export function tokenize(text: string): {
  lines: LogicalLine[];
  comments: ReadonlyMap<number, string>;
} {
  const tokenizer = new Tokenizer(text.replace(/^\ufeff/, ""));
  return { lines: tokenizer.lines(), comments: tokenizer.comments };
}

class Tokenizer {
  readonly comments = new Map<number, string>();
  private at = 0;
  private line = 1;
  private lineStart = 0;
  private readonly brackets: { close: string; place: SourcePosition }[] = [];

  constructor(private readonly text: string) {}

  lines(): LogicalLine[] {
    const lines: LogicalLine[] = [];
    let indent = this.indent();
    let tokens: Token[] = [];
    let lastLine = this.line;
    const end = () => {
      if (tokens.length > 0) lines.push({ indent, lastLine, tokens: [...tokens, this.end()] });
      tokens = [];
    };
    while (this.at < this.text.length) {
      if (this.newLine()) {
        if (this.brackets.length > 0) continue;
        end();
        indent = this.indent();
        continue;
      }
      if (this.skip()) continue;
      const token = this.token();
      lastLine = this.line;
      if (token.kind === "operator" && token.text === ";" && this.brackets.length === 0) end();
      else tokens.push(token);
    }
    const open = this.brackets.at(-1);
    if (open !== undefined) {
      throw new CodeError(`a bracket is not closed: \`${open.close}\` is missing`, open.place);
    }
    end();
    return lines;
  }

  private indent(): number {
    return this.match(/[ \t\f]*/y).replace(/\t/g, "        ").length;
  }

  private newLine(): boolean {
    const found = this.match(/\r\n|\n|\r/y);
    if (found === "") return false;
    this.line += 1;
    this.lineStart = this.at;
    return true;
  }

  /** Skips blanks, comments and line joins. */
  private skip(): boolean {
    const space = this.match(SPACE);
    this.count(space);
    const comment = this.match(/#[^\r\n]*/y);
    if (comment !== "") this.comments.set(this.line, comment);
    return space !== "" || comment !== "";
  }

  private token(): Token {
    const place = this.place();
    const string = this.match(STRING);
    if (string !== "") return this.string(string, place);
    const next = this.text[this.at] ?? "";
    if (/[0-9]/.test(next) || /^\.[0-9]/.test(this.text.slice(this.at, this.at + 2))) {
      return this.number(place);
    }
    const name = this.match(NAME);
    if (name !== "") return { ...place, kind: "name", text: name.normalize("NFKC") };
    const operator = this.match(OPERATOR);
    if (operator === "")
      this.fail(`\`${String.fromCodePoint(this.text.codePointAt(this.at) ?? 0)}\` is no Python`);
    this.bracket(operator, place);
    return { ...place, kind: "operator", text: operator };
  }

  private bracket(operator: string, place: SourcePosition): void {
    const close = BRACKETS[operator];
    if (close !== undefined) this.brackets.push({ close, place });
    if (")]}".includes(operator) && this.brackets.pop()?.close !== operator) {
      throw new CodeError(`\`${operator}\` closes nothing`, place);
    }
  }

  private number(place: SourcePosition): Token {
    const literal = this.match(NUMBER);
    if (this.match(NAME) !== "") this.fail("a number runs into a name");
    const plain = literal.replaceAll("_", "");
    if (/[jJ]$/.test(plain))
      return this.unsupported(literal, "a flow holds no complex numbers", place);
    if (/^0[0-9]*[1-9]/.test(plain) && !/[.eE]/.test(plain)) this.fail("a number begins with 0");
    const isWhole = /^(?:0[xXoObB]|[0-9]+$)/.test(plain);
    const value = isWhole ? wholeOf(BigInt(plain)) : floatOf(Number(plain));
    if (value === undefined) return this.unsupported(literal, "it is infinite", place);
    return { ...place, kind: "number", value };
  }

  private string(opening: string, place: SourcePosition): Token {
    const quote = opening.replace(/^[a-zA-Z]*/, "");
    const prefix = opening.slice(0, -quote.length).toLowerCase();
    const start = this.at;
    while (!this.text.startsWith(quote, this.at)) {
      const character = this.text[this.at];
      const isOver = character === undefined || (quote.length === 1 && /[\r\n]/.test(character));
      if (isOver) throw new CodeError("a text does not end", place);
      this.at += character === "\\" ? (this.text.startsWith("\r\n", this.at + 1) ? 3 : 2) : 1;
    }
    const body = this.text.slice(start, this.at);
    this.at += quote.length;
    this.count(body);
    const why = UNSUPPORTED_PREFIXES.find(([letter]) => prefix.includes(letter))?.[1];
    if (why !== undefined) return this.unsupported(opening + body + quote, why, place);
    const lines = body.replace(/\r\n?/g, "\n");
    if (prefix.includes("r")) return { ...place, kind: "text", value: lines };
    return { ...place, kind: "text", value: this.unescaped(lines, place) };
  }

  private unescaped(body: string, place: SourcePosition): string {
    return body.replace(ESCAPE, (_, joined, simple, octal, x, u, long, wrong) => {
      if (joined) return "";
      if (simple) return SIMPLE_ESCAPES[simple] ?? simple;
      const code = Number.parseInt(octal ?? x ?? u ?? long ?? "", octal ? 8 : 16);
      if (wrong || code > 0x10ffff)
        throw new CodeError("a text has an escape that is not read", place);
      return String.fromCodePoint(code);
    });
  }

  private unsupported(text: string, why: string, place: SourcePosition): Token {
    return { ...place, kind: "unsupported", text, why };
  }

  private end(): Token {
    return { ...this.place(), kind: "end" };
  }

  private match(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0] ?? "";
    this.at += found.length;
    return found;
  }

  /** Updates the line number for line ends in the text just consumed. */
  private count(passed: string): void {
    const lines = passed.split(/\r\n|\n|\r/);
    if (lines.length === 1) return;
    this.line += lines.length - 1;
    this.lineStart = this.text.slice(0, this.at).search(/[^\r\n]*$/);
  }

  private place(): SourcePosition {
    return { line: this.line, column: [...this.text.slice(this.lineStart, this.at)].length + 1 };
  }

  private fail(message: string): never {
    throw new CodeError(message, this.place());
  }
}

const UNSUPPORTED_PREFIXES = [
  ["f", "an f-string is known only when the program runs: write a text, or `eu.var(…)`"],
  ["t", "a t-string is known only when the program runs: write a text, or `eu.var(…)`"],
  ["b", "a flow holds texts, not bytes"],
] as const;

const SIMPLE_ESCAPES: Readonly<Record<string, string>> = {
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};
