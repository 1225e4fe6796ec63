// Parses Python expressions. Syntax outside of the subset (comprehensions, conditions, lambdas, …)
// becomes a `gap` with the reason, which matters only if a flow depends on it.

import type { Numeral } from "../numeral";
import { CodeError, type Line, type Place, type Token } from "./tokenizer";

export type Tree = Place &
  (
    | { readonly kind: "value"; readonly value: null | boolean | number | Numeral | string }
    | { readonly kind: "name"; readonly name: string }
    | { readonly kind: "attribute"; readonly of: Tree; readonly name: string }
    | { readonly kind: "subscript"; readonly of: Tree; readonly index: Tree }
    | { readonly kind: "call"; readonly of: Tree; readonly given: readonly Argument[] }
    | { readonly kind: "list"; readonly items: readonly Tree[] }
    | { readonly kind: "dict"; readonly members: readonly (readonly [Tree, Tree])[] }
    | { readonly kind: "operation"; readonly sign: string; readonly operands: readonly Tree[] }
    | { readonly kind: "gap"; readonly why: string; readonly names: readonly string[] }
  );

export interface Argument {
  readonly name?: string;
  readonly value: Tree;
}

/** Nesting limit, above that of documents. */
const DEPTH_MAX = 300;
/** Binary operators by precedence, loosest first. */
const LEVELS: readonly (readonly string[])[] = [
  ["<<", ">>"],
  ["+", "-"],
  ["*", "/", "//", "%"],
];
const ENDS = new Set([",", ")", "]", "}", ":", "="]);

/** Recursive-descent parser for the expressions of one line. */
export class Syntax {
  private at = 0;
  private depth = 0;

  constructor(private readonly line: Line) {}

  get next(): Token {
    return this.line.tokens[this.at] ?? (this.line.tokens.at(-1) as Token);
  }

  isAtEnd(): boolean {
    return this.next.kind === "end";
  }

  take(sign: string): boolean {
    const is = this.isSign(sign);
    if (is) this.at += 1;
    return is;
  }

  takeWord(word: string): boolean {
    const is = this.next.kind === "name" && this.next.text === word;
    if (is) this.at += 1;
    return is;
  }

  /** Takes a name. */
  name(): string {
    const { next } = this;
    if (next.kind !== "name") throw this.unexpected("a name");
    this.at += 1;
    return next.text;
  }

  /** Takes a dotted name. */
  path(): string {
    const parts = [this.name()];
    while (this.take(".")) parts.push(this.name());
    return parts.join(".");
  }

  expect(sign: string): void {
    if (!this.take(sign)) throw this.unexpected(`\`${sign}\``);
  }

  unexpected(wanted: string): CodeError {
    const { next } = this;
    const found = next.kind === "end" ? "the line ends" : `${shown(next)} stands there`;
    return new CodeError(`${wanted} is expected, but ${found}`, next);
  }

  /** An expression, or a tuple without parentheses. */
  expressions(): Tree {
    const place = placeOf(this.next);
    const first = this.expression();
    if (!this.isSign(",")) return first;
    const items = [first];
    while (this.take(",")) {
      if (this.isAtEnd() || this.isSign("=")) break;
      items.push(this.expression());
    }
    return { ...place, kind: "list", items };
  }

  /** An expression, or a gap up to its end. */
  expression(): Tree {
    this.depth += 1;
    if (this.depth > DEPTH_MAX) throw new CodeError("the nesting is too deep", this.next);
    const tree = this.expressionOrGap();
    this.depth -= 1;
    return tree;
  }

  private expressionOrGap(): Tree {
    const start = this.at;
    const place = placeOf(this.next);
    const { next } = this;
    const begins = next.kind === "name" && UNREAD_WORDS.has(next.text);
    const isStarred = this.isSign("*") || this.isSign("**");
    if (!begins && !isStarred) {
      const tree = this.binary(0);
      if (this.isAtEnd() || (this.next.kind === "sign" && ENDS.has(this.next.text))) return tree;
    }
    const what = shown(this.next);
    this.skip();
    return this.gap(start, place, `${what} is not read here`);
  }

  /** A gap from the token at `start` to the current one. */
  private gap(start: number, place: Place, why: string): Tree {
    return { ...place, kind: "gap", why, names: namesIn(this.line.tokens.slice(start, this.at)) };
  }

  private skip(): void {
    let depth = 0;
    while (!this.isAtEnd()) {
      const { next } = this;
      if (next.kind === "sign") {
        // The colon of a lambda does not end the expression.
        if (depth === 0 && next.text !== ":" && ENDS.has(next.text)) return;
        if ("([{".includes(next.text)) depth += 1;
        if (")]}".includes(next.text)) depth -= 1;
      }
      this.at += 1;
    }
  }

  private binary(level: number): Tree {
    const signs = LEVELS[level];
    if (signs === undefined) return this.unary();
    let left = this.binary(level + 1);
    for (;;) {
      const place = placeOf(left);
      const sign = signs.find((sign) => this.take(sign));
      if (sign === undefined) return left;
      left = { ...place, kind: "operation", sign, operands: [left, this.binary(level + 1)] };
    }
  }

  private unary(): Tree {
    const place = placeOf(this.next);
    const sign = ["-", "+", "~"].find((sign) => this.take(sign));
    if (sign !== undefined) {
      return { ...place, kind: "operation", sign, operands: [this.unary()] };
    }
    const base = this.primary();
    if (!this.take("**")) return base;
    return { ...place, kind: "operation", sign: "**", operands: [base, this.unary()] };
  }

  private primary(): Tree {
    let tree = this.atom();
    const place = placeOf(tree);
    for (;;) {
      if (this.take(".")) {
        tree = { ...placeOf(this.next), kind: "attribute", of: tree, name: this.name() };
      } else if (this.take("(")) {
        tree = { ...place, kind: "call", of: tree, given: this.given() };
      } else if (this.take("[")) {
        tree = { ...place, kind: "subscript", of: tree, index: this.index() };
      } else {
        return tree;
      }
    }
  }

  private given(): Argument[] {
    const given: Argument[] = [];
    while (!this.take(")")) {
      const value = this.expression();
      const isNamed = value.kind === "name" && this.take("=");
      given.push(isNamed ? { name: value.name, value: this.expression() } : { value });
      if (!this.isSign(")")) this.expect(",");
    }
    return given;
  }

  private index(): Tree {
    const start = this.at;
    const place = placeOf(this.next);
    const index = this.isSign(":") ? undefined : this.expression();
    if (index !== undefined && this.take("]")) return index;
    while (!this.take("]")) {
      if (this.isAtEnd()) throw this.unexpected("`]`");
      if (!this.take(":") && !this.take(",")) this.expression();
    }
    return this.gap(start, place, "a slice is not read here");
  }

  private atom(): Tree {
    const { next } = this;
    const place = placeOf(next);
    if (next.kind === "text") return { ...place, kind: "value", value: this.texts() };
    if (next.kind === "name" || next.kind === "number" || next.kind === "strange") this.at += 1;
    if (next.kind === "number") return { ...place, kind: "value", value: next.value };
    if (next.kind === "strange") return this.strange(next, next.why);
    if (next.kind === "name") {
      const value = CONSTANTS.get(next.text);
      if (value === undefined) return { ...place, kind: "name", name: next.text };
      return { ...place, kind: "value", value };
    }
    if (this.take("(")) return this.parenthesis(place);
    if (this.take("[")) return { ...place, kind: "list", items: this.items("]") };
    if (this.take("{")) return this.dict(place);
    throw this.unexpected("an expression");
  }

  /** Concatenates adjacent string literals. */
  private texts(): string {
    let text = "";
    while (this.next.kind === "text") {
      text += this.next.value;
      this.at += 1;
    }
    return text;
  }

  private strange(place: Place, why: string): Tree {
    while (this.next.kind === "text" || this.next.kind === "strange") this.at += 1;
    return { line: place.line, column: place.column, kind: "gap", why, names: [] };
  }

  private parenthesis(place: Place): Tree {
    if (this.take(")")) return { ...place, kind: "list", items: [] };
    const first = this.expression();
    if (this.take(")")) return first;
    this.expect(",");
    return { ...place, kind: "list", items: [first, ...this.items(")")] };
  }

  private items(close: string): Tree[] {
    const items: Tree[] = [];
    while (!this.take(close)) {
      items.push(this.expression());
      if (!this.isSign(close)) this.expect(",");
    }
    return items;
  }

  private dict(place: Place): Tree {
    const start = this.at;
    const members: [Tree, Tree][] = [];
    let isSet = false;
    while (!this.take("}")) {
      const key = this.expression();
      isSet ||= !this.take(":");
      if (!isSet) members.push([key, this.expression()]);
      if (!this.isSign("}")) this.expect(",");
    }
    if (isSet) return this.gap(start, place, "a set is not read here");
    return { ...place, kind: "dict", members };
  }

  private isSign(sign: string): boolean {
    return this.next.kind === "sign" && this.next.text === sign;
  }
}

const CONSTANTS: ReadonlyMap<string, null | boolean> = new Map([
  ["None", null],
  ["True", true],
  ["False", false],
]);
const UNREAD_WORDS = new Set(["lambda", "await", "yield", "not"]);

function placeOf({ line, column }: Place): Place {
  return { line, column };
}

function shown(token: Token): string {
  if (token.kind === "end") return "the end of the line";
  if (token.kind === "text") return "a text";
  return `\`${token.kind === "number" ? String(token.value) : token.text}\``;
}

export function namesIn(tokens: readonly Token[]): string[] {
  return tokens.flatMap((token) => (token.kind === "name" ? [token.text] : []));
}
