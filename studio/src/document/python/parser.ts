// Parses Python expressions. Syntax outside of the subset (comprehensions, conditions, lambdas, …)
// becomes `unsupported` with the reason, which matters only if a flow depends on it.

import type { Numeral } from "../numeral";
import { CodeError, type LogicalLine, type SourcePosition, type Token } from "./tokenizer";

export type SyntaxTree = SourcePosition &
  (
    | { readonly kind: "value"; readonly value: null | boolean | number | Numeral | string }
    | { readonly kind: "name"; readonly name: string }
    | { readonly kind: "attribute"; readonly of: SyntaxTree; readonly name: string }
    | { readonly kind: "subscript"; readonly of: SyntaxTree; readonly index: SyntaxTree }
    | { readonly kind: "call"; readonly of: SyntaxTree; readonly given: readonly Argument[] }
    | { readonly kind: "list"; readonly items: readonly SyntaxTree[] }
    | { readonly kind: "dict"; readonly members: readonly (readonly [SyntaxTree, SyntaxTree])[] }
    | {
        readonly kind: "operation";
        readonly operator: string;
        readonly operands: readonly SyntaxTree[];
      }
    | { readonly kind: "unsupported"; readonly why: string; readonly names: readonly string[] }
  );

export interface Argument {
  readonly name?: string;
  readonly value: SyntaxTree;
}

/** Nesting limit, above that of documents. */
const DEPTH_MAX = 300;
/** Binary operators by precedence, loosest first. */
const BINARY_OPERATORS: readonly (readonly string[])[] = [
  ["<<", ">>"],
  ["+", "-"],
  ["*", "/", "//", "%"],
];
const EXPRESSION_ENDS = new Set([",", ")", "]", "}", ":", "="]);

/** Recursive-descent parser for the expressions of one line. */
export class ExpressionParser {
  private at = 0;
  private depth = 0;

  constructor(private readonly line: LogicalLine) {}

  get next(): Token {
    return this.line.tokens[this.at] ?? (this.line.tokens.at(-1) as Token);
  }

  isAtEnd(): boolean {
    return this.next.kind === "end";
  }

  take(operator: string): boolean {
    const is = this.isOperator(operator);
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

  expect(operator: string): void {
    if (!this.take(operator)) throw this.unexpected(`\`${operator}\``);
  }

  unexpected(wanted: string): CodeError {
    const { next } = this;
    const found = next.kind === "end" ? "the line ends" : `${tokenText(next)} stands there`;
    return new CodeError(`${wanted} is expected, but ${found}`, next);
  }

  /** An expression, or a tuple without parentheses. */
  expressions(): SyntaxTree {
    const place = positionOf(this.next);
    const first = this.expression();
    if (!this.isOperator(",")) return first;
    const items = [first];
    while (this.take(",")) {
      if (this.isAtEnd() || this.isOperator("=")) break;
      items.push(this.expression());
    }
    return { ...place, kind: "list", items };
  }

  /** An expression; an `unsupported` one extends to its end. */
  expression(): SyntaxTree {
    this.depth += 1;
    if (this.depth > DEPTH_MAX) throw new CodeError("the nesting is too deep", this.next);
    const tree = this.supportedExpression();
    this.depth -= 1;
    return tree;
  }

  private supportedExpression(): SyntaxTree {
    const start = this.at;
    const place = positionOf(this.next);
    const { next } = this;
    const begins = next.kind === "name" && UNSUPPORTED_KEYWORDS.has(next.text);
    const isStarred = this.isOperator("*") || this.isOperator("**");
    if (!begins && !isStarred) {
      const tree = this.binary(0);
      if (this.isAtEnd() || (this.next.kind === "operator" && EXPRESSION_ENDS.has(this.next.text)))
        return tree;
    }
    const what = tokenText(this.next);
    this.skip();
    return this.unsupportedFrom(start, place, `${what} is not read here`);
  }

  /** An `unsupported` tree from the token at `start` to the current one. */
  private unsupportedFrom(start: number, place: SourcePosition, why: string): SyntaxTree {
    return {
      ...place,
      kind: "unsupported",
      why,
      names: namesIn(this.line.tokens.slice(start, this.at)),
    };
  }

  private skip(): void {
    let depth = 0;
    while (!this.isAtEnd()) {
      const { next } = this;
      if (next.kind === "operator") {
        // The colon of a lambda does not end the expression.
        if (depth === 0 && next.text !== ":" && EXPRESSION_ENDS.has(next.text)) return;
        if ("([{".includes(next.text)) depth += 1;
        if (")]}".includes(next.text)) depth -= 1;
      }
      this.at += 1;
    }
  }

  private binary(level: number): SyntaxTree {
    const operators = BINARY_OPERATORS[level];
    if (operators === undefined) return this.unary();
    let left = this.binary(level + 1);
    for (;;) {
      const place = positionOf(left);
      const operator = operators.find((operator) => this.take(operator));
      if (operator === undefined) return left;
      left = { ...place, kind: "operation", operator, operands: [left, this.binary(level + 1)] };
    }
  }

  private unary(): SyntaxTree {
    const place = positionOf(this.next);
    const operator = ["-", "+", "~"].find((operator) => this.take(operator));
    if (operator !== undefined) {
      return { ...place, kind: "operation", operator, operands: [this.unary()] };
    }
    const base = this.primary();
    if (!this.take("**")) return base;
    return { ...place, kind: "operation", operator: "**", operands: [base, this.unary()] };
  }

  private primary(): SyntaxTree {
    let tree = this.atom();
    const place = positionOf(tree);
    for (;;) {
      if (this.take(".")) {
        tree = { ...positionOf(this.next), kind: "attribute", of: tree, name: this.name() };
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
      if (!this.isOperator(")")) this.expect(",");
    }
    return given;
  }

  private index(): SyntaxTree {
    const start = this.at;
    const place = positionOf(this.next);
    const index = this.isOperator(":") ? undefined : this.expression();
    if (index !== undefined && this.take("]")) return index;
    while (!this.take("]")) {
      if (this.isAtEnd()) throw this.unexpected("`]`");
      if (!this.take(":") && !this.take(",")) this.expression();
    }
    return this.unsupportedFrom(start, place, "a slice is not read here");
  }

  private atom(): SyntaxTree {
    const { next } = this;
    const place = positionOf(next);
    if (next.kind === "text") return { ...place, kind: "value", value: this.texts() };
    if (next.kind === "name" || next.kind === "number" || next.kind === "unsupported") this.at += 1;
    if (next.kind === "number") return { ...place, kind: "value", value: next.value };
    if (next.kind === "unsupported") return this.unsupported(next, next.why);
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

  private unsupported(place: SourcePosition, why: string): SyntaxTree {
    while (this.next.kind === "text" || this.next.kind === "unsupported") this.at += 1;
    return { line: place.line, column: place.column, kind: "unsupported", why, names: [] };
  }

  private parenthesis(place: SourcePosition): SyntaxTree {
    if (this.take(")")) return { ...place, kind: "list", items: [] };
    const first = this.expression();
    if (this.take(")")) return first;
    this.expect(",");
    return { ...place, kind: "list", items: [first, ...this.items(")")] };
  }

  private items(close: string): SyntaxTree[] {
    const items: SyntaxTree[] = [];
    while (!this.take(close)) {
      items.push(this.expression());
      if (!this.isOperator(close)) this.expect(",");
    }
    return items;
  }

  private dict(place: SourcePosition): SyntaxTree {
    const start = this.at;
    const members: [SyntaxTree, SyntaxTree][] = [];
    let isSet = false;
    while (!this.take("}")) {
      const key = this.expression();
      isSet ||= !this.take(":");
      if (!isSet) members.push([key, this.expression()]);
      if (!this.isOperator("}")) this.expect(",");
    }
    if (isSet) return this.unsupportedFrom(start, place, "a set is not read here");
    return { ...place, kind: "dict", members };
  }

  private isOperator(operator: string): boolean {
    return this.next.kind === "operator" && this.next.text === operator;
  }
}

const CONSTANTS: ReadonlyMap<string, null | boolean> = new Map([
  ["None", null],
  ["True", true],
  ["False", false],
]);
const UNSUPPORTED_KEYWORDS = new Set(["lambda", "await", "yield", "not"]);

function positionOf({ line, column }: SourcePosition): SourcePosition {
  return { line, column };
}

function tokenText(token: Token): string {
  if (token.kind === "end") return "the end of the line";
  if (token.kind === "text") return "a text";
  return `\`${token.kind === "number" ? String(token.value) : token.text}\``;
}

export function namesIn(tokens: readonly Token[]): string[] {
  return tokens.flatMap((token) => (token.kind === "name" ? [token.text] : []));
}
