// Evaluates syntax trees: computes literals and applies calls of `euphrates` to the flow being
// built. Everything else is an unknown value; nothing is executed or imported.

import { floatOf, Numeral, numeralText, wholeOf } from "../numeral";
import type { Specs } from "../specs";
import { connect, flowAttribute, portOfSubscript } from "./flowApi";
import { packageAttribute } from "./packageApi";
import type { SyntaxTree } from "./parser";
import { CodeError, type SourcePosition } from "./tokenizer";
import { CallArguments, definedInProgram, notLiteral, plainJson, type Value } from "./values";

/** The values of a program's names. */
export type Scope = Map<string, Value>;

/** Names that build flows: skipped code that contains one cannot be ignored. */
const BUILDER_NAMES = new Set(["Flow", "place", "attach", "chain", "variable", "layout"]);

/** Built-in functions that do not change their arguments. */
const PURE_FUNCTIONS = new Set([
  "print",
  "repr",
  "str",
  "len",
  "list",
  "dict",
  "display",
  "vars",
  "dir",
]);

export function mayBuild(names: readonly string[]): boolean {
  return names.some((name) => BUILDER_NAMES.has(name));
}

/** A value that is known only when the program runs. */
export function unknownValue(why: string): Value {
  return { kind: "unknown", why };
}

export function evaluate(tree: SyntaxTree, scope: Scope, specs: Specs): Value {
  const inner = (tree: SyntaxTree) => evaluate(tree, scope, specs);
  switch (tree.kind) {
    case "value":
      return { kind: "plain", json: tree.value };
    case "name":
      return scope.get(tree.name) ?? unknownValue(`\`${tree.name}\` is not known here`);
    case "attribute":
      return attribute(inner(tree.of), tree.name, tree, specs);
    case "subscript":
      return subscript(inner(tree.of), inner(tree.index), tree.index);
    case "call":
      return call(tree, scope, specs);
    case "list":
      return { kind: "list", items: tree.items.map(inner) };
    case "dict":
      return dict(tree.members, inner);
    case "operation":
      return operation(tree.operator, tree.operands.map(inner), tree);
    case "unsupported":
      if (!mayBuild(tree.names)) return unknownValue(tree.why);
      throw new CodeError(tree.why, tree, "write the flow's lines one after another");
  }
}

function dict(
  members: readonly (readonly [SyntaxTree, SyntaxTree])[],
  inner: (tree: SyntaxTree) => Value,
): Value {
  const known = new Map<string, Value>();
  for (const [key, member] of members) {
    const name = inner(key);
    const value = inner(member);
    if (name.kind === "unknown") return name;
    if (name.kind !== "plain" || typeof name.json !== "string") {
      return unknownValue("a dict has a key that is not text");
    }
    known.set(name.json, value);
  }
  return { kind: "dict", members: known };
}

function attribute(of: Value, name: string, place: SourcePosition, specs: Specs): Value {
  switch (of.kind) {
    case "package":
      return packageAttribute(name, specs, place);
    case "flow":
      return flowAttribute(of.flow, name, place);
    case "imported": {
      const module = of.name === undefined ? of.module : `${of.module}.${of.name}`;
      return { kind: "imported", module, name };
    }
    case "placed":
      if (name === "flow") return { kind: "flow", flow: of.flow };
      if (name === "id") return { kind: "plain", json: of.id };
      throw new CodeError(`a placed module has no \`${name}\``, place, "it has: flow, id");
    default:
      return unknownValue(of.kind === "unknown" ? of.why : `\`.${name}\` is not read here`);
  }
}

function subscript(of: Value, index: Value, place: SourcePosition): Value {
  if (of.kind === "placed") {
    const port = portOfSubscript(index, place);
    return port === undefined ? of : { ...of, port };
  }
  if (index.kind === "plain" && of.kind === "dict" && typeof index.json === "string") {
    return of.members.get(index.json) ?? unknownValue("the dict has no such key");
  }
  if (index.kind === "plain" && of.kind === "list" && typeof index.json === "number") {
    return of.items.at(index.json) ?? unknownValue("the list is shorter");
  }
  return of.kind === "unknown" ? of : unknownValue("a subscript is not read here");
}

function call(tree: Extract<SyntaxTree, { kind: "call" }>, scope: Scope, specs: Specs): Value {
  const callee = evaluate(tree.of, scope, specs);
  const positional: Value[] = [];
  const named = new Map<string, Value>();
  const places = new Map<number | string, SourcePosition>();
  for (const { name, value } of tree.given) {
    places.set(name ?? positional.length, value);
    const given = evaluate(value, scope, specs);
    if (name === undefined) positional.push(given);
    else named.set(name, given);
  }
  const given = new CallArguments(tree, positional, named, places);
  if (callee.kind === "function") return callee.call(given);
  const isHarmless = tree.of.kind === "name" && PURE_FUNCTIONS.has(tree.of.name);
  if (!isHarmless) rejectIfMayBuild(callee, given);
  if (callee.kind === "unknown") return unknownValue(callee.why);
  return unknownValue("a function is called, and nothing is run");
}

/** Rejects a skipped call that could have changed a flow. */
function rejectIfMayBuild(callee: Value, given: CallArguments): void {
  if (callee.kind === "defined" && callee.builds) throw definedInProgram(callee.name, given.place);
  const changed = [...given.positional, ...given.named.values()].find(
    ({ kind }) => kind === "flow" || kind === "placed",
  );
  if (changed === undefined) return;
  const message = "a flow is given to a function that is not run, and may change it";
  throw new CodeError(message, given.place, "write the flow's lines one after another");
}

function operation(operator: string, operands: readonly Value[], place: SourcePosition): Value {
  const [left, right] = operands;
  if (operator === ">>" && left?.kind === "placed" && right !== undefined) {
    return connect(left, right, place);
  }
  const notPlain = operands.find(({ kind }) => kind !== "plain" && kind !== "list");
  if (notPlain !== undefined) {
    const isBuilding = notPlain.kind === "flow" || notPlain.kind === "module";
    if (isBuilding) throw notLiteral(notPlain, place);
    return notPlain.kind === "unknown"
      ? notPlain
      : unknownValue(`\`${operator}\` is not read here`);
  }
  const json = operands.map((operand) => plainJson(operand, place));
  const [a, b] = json;
  if (operator === "+" && typeof a === "string" && typeof b === "string") {
    return { kind: "plain", json: a + b };
  }
  const numbers = json.filter((one) => typeof one === "number" || one instanceof Numeral);
  const computed = numbers.length === json.length ? compute(operator, numbers) : undefined;
  return computed === undefined
    ? unknownValue(`\`${operator}\` is not read here`)
    : { kind: "plain", json: computed };
}

type NumberValue = number | Numeral;

function compute(operator: string, numbers: readonly NumberValue[]): NumberValue | undefined {
  const texts = numbers.map(numeralText);
  const areWhole = texts.every((text) => /^-?[0-9]+$/.test(text));
  const isFraction = operator === "/" || (operator === "**" && texts[1]?.startsWith("-"));
  if (areWhole && !isFraction) return whole(operator, texts.map(BigInt));
  const [a = 0, b] = texts.map(Number);
  if (b === undefined)
    return operator === "-" ? floatOf(-a) : operator === "+" ? floatOf(a) : undefined;
  const result = { "+": a + b, "-": a - b, "*": a * b, "/": a / b, "**": a ** b }[operator];
  return result === undefined ? undefined : floatOf(result);
}

/** Limit of exponents and shifts; a document's numbers have at most 64 bits. */
const BITS_MAX = 64n;

function whole(operator: string, [a = 0n, b]: readonly bigint[]): NumberValue | undefined {
  const result = b === undefined ? unary(operator, a) : binary(operator, a, b);
  const fits = result !== undefined && result >= -(2n ** 63n) && result < 2n ** 64n;
  return fits ? wholeOf(result) : undefined;
}

function unary(operator: string, a: bigint): bigint | undefined {
  return operator === "-" ? -a : operator === "+" ? a : operator === "~" ? ~a : undefined;
}

function binary(operator: string, a: bigint, b: bigint): bigint | undefined {
  const isSmall = b >= 0n && b <= BITS_MAX;
  switch (operator) {
    case "+":
      return a + b;
    case "-":
      return a - b;
    case "*":
      return a * b;
    case "//":
    case "%": {
      if (b === 0n) return undefined;
      const rest = ((a % b) + b) % b;
      return operator === "%" ? rest : (a - rest) / b;
    }
    case "<<":
      return isSmall ? a << b : undefined;
    case ">>":
      return isSmall ? a >> b : undefined;
    case "**":
      return isSmall && a >= -1024n && a <= 1024n ? a ** b : undefined;
    default:
      return undefined;
  }
}
