// JSON reader and printer that agree with Rust and Python. JavaScript's own loses the difference of
// 1.0 and 1, rounds beyond 2^53, sorts numeric keys, and gives up at the first error.

import { Numeral, numberOf, numeralText } from "./numeral";
import type { Problem } from "./problem";

/** A JSON value. Objects are maps, which keep the order of keys and allow any key. */
export type Json = null | boolean | number | Numeral | string | readonly Json[] | JsonObject;
export type JsonObject = ReadonlyMap<string, Json>;

/** The result of reading a text as far as possible. */
export interface JsonRead {
  readonly value: Json | undefined;
  /** False if part of the text could not be read and is missing from the value. */
  readonly isComplete: boolean;
  readonly problems: readonly Problem[];
}

/** Nesting limit, that of Rust's reader. */
const DEPTH_MAX = 127;
/** Problems reported at most. */
const PROBLEMS_MAX = 100;

export function isObject(value: Json | undefined): value is JsonObject {
  return value instanceof Map;
}

export function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

/** Reads a text; after an error, keeps what came before it. */
export function readJson(text: string): JsonRead {
  const reader = new JsonReader(text);
  const value = reader.document();
  return { value, isComplete: !reader.failed, problems: reader.problems };
}

/** Prints a value with an indentation of two spaces, as Rust does. */
export function printJson(value: Json, indent = ""): string {
  if (isObject(value)) {
    const member = ([key, inner]: [string, Json]) => `${JSON.stringify(key)}: ${deeper(inner)}`;
    return bracketed("{", [...value].map(member), "}");
  }
  if (isList(value)) return bracketed("[", value.map(deeper), "]");
  if (typeof value === "number" || value instanceof Numeral) return numeralText(value);
  return JSON.stringify(value);

  function deeper(inner: Json): string {
    return printJson(inner, `${indent}  `);
  }
  function bracketed(open: string, members: string[], close: string): string {
    if (members.length === 0) return open + close;
    const lines = members.map((member) => `${indent}  ${member}`).join(",\n");
    return `${open}\n${lines}\n${indent}${close}`;
  }
}

/** Prints a value on one line. */
export function printOnOneLine(value: Json): string {
  if (isObject(value)) {
    const member = ([key, inner]: [string, Json]) =>
      `${JSON.stringify(key)}: ${printOnOneLine(inner)}`;
    return `{${[...value].map(member).join(", ")}}`;
  }
  if (isList(value)) return `[${value.map(printOnOneLine).join(", ")}]`;
  return printJson(value);
}

export function sameJson(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  return a !== undefined && b !== undefined && printOnOneLine(a) === printOnOneLine(b);
}

class JsonReader {
  readonly problems: Problem[] = [];
  failed = false;
  private at = 0;

  constructor(private readonly text: string) {
    if (text.startsWith("\ufeff")) this.at = 1;
  }

  document(): Json | undefined {
    const value = this.value(0);
    this.space();
    if (!this.failed && this.at < this.text.length) this.fail("trailing characters");
    return value;
  }

  private value(depth: number): Json | undefined {
    this.space();
    const first = this.text[this.at];
    if (depth > DEPTH_MAX && (first === "{" || first === "[")) {
      return this.fail("the nesting is too deep");
    }
    if (first === "{") return this.object(depth);
    if (first === "[") return this.list(depth);
    if (first === '"') return this.string();
    const word = this.word();
    return word === undefined ? this.number() : word;
  }

  private object(depth: number): JsonObject {
    const members = new Map<string, Json>();
    this.members("}", () => {
      const place = this.at;
      const key = this.text[this.at] === '"' ? this.string() : this.fail("expected a key");
      this.space();
      if (key === undefined || !this.take(":")) return this.fail("expected `:`");
      const value = this.value(depth + 1);
      if (members.has(key)) this.report(`\`${key}\` is given twice: the last one counts`, place);
      if (value !== undefined) members.set(key, value);
    });
    return members;
  }

  private list(depth: number): Json[] {
    const items: Json[] = [];
    this.members("]", () => {
      const item = this.value(depth + 1);
      if (item !== undefined) items.push(item);
    });
    return items;
  }

  /** Reads comma-separated members up to the closing bracket. */
  private members(close: string, member: () => void): void {
    this.at += 1;
    this.space();
    if (this.take(close)) return;
    while (!this.failed) {
      this.space();
      member();
      this.space();
      if (this.failed || this.take(close)) return;
      if (!this.take(",")) this.fail(`expected \`,\` or \`${close}\``);
    }
  }

  private string(): string | undefined {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: JSON forbids exactly these
    const literal = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
    literal.lastIndex = this.at;
    const found = literal.exec(this.text)?.[0];
    if (found === undefined) return this.fail("a text does not end, or has a wrong escape");
    const text: string = JSON.parse(found);
    if (/\p{Cs}/u.test(text)) this.report("a text is not valid Unicode", this.at);
    this.at += found.length;
    return text;
  }

  private word(): null | boolean | undefined {
    for (const [word, value] of LITERALS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    return undefined;
  }

  private number(): number | Numeral | undefined {
    const literal = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
    literal.lastIndex = this.at;
    const found = literal.exec(this.text)?.[0];
    if (found === undefined) return this.fail("expected a value");
    const number = numberOf(found);
    if (number === undefined) return this.fail("a number is out of range");
    this.at += found.length;
    return number;
  }

  private space(): void {
    while (" \t\r\n".includes(this.text[this.at] ?? "x")) this.at += 1;
  }

  private take(character: string): boolean {
    const is = this.text[this.at] === character;
    if (is) this.at += 1;
    return is;
  }

  private fail(message: string): undefined {
    if (!this.failed) this.report(message, this.at);
    this.failed = true;
  }

  private report(message: string, at: number): void {
    if (this.problems.length >= PROBLEMS_MAX) return;
    const before = this.text.slice(0, at).split("\n");
    const column = (before.at(-1)?.length ?? 0) + 1;
    this.problems.push({ message, place: `line ${before.length}, column ${column}` });
  }
}

const LITERALS = [
  ["null", null],
  ["true", true],
  ["false", false],
] as const;
