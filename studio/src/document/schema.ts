// Validates a value against an option's schema while it is typed. The engine has the last word.

import { variableName } from "./flow";
import { isList, isObject, type Json, printOnOneLine } from "./json";
import { Numeral, numeralText } from "./numeral";
import type { Schema } from "./specs";

/** Why a value is invalid for a schema; undefined if valid. Variables are always valid. */
export function valueProblem(value: Json, schema: Schema): string | undefined {
  if (variableName(value) !== undefined || matches(value, schema)) return undefined;
  const text = truncated(printOnOneLine(value));
  const { minimum } = schema;
  const isLess = isNumber(value) && isWhole(value) && !isInRange(value, schema);
  return isLess ? `${text} is less than ${minimum}` : `${text} is not ${expectedText(schema)}`;
}

/** The values that a schema takes, as text. */
export function expectedText(schema: Schema): string {
  const kinds = alternatives(schema).flatMap((one) => {
    if (one.const !== undefined) return [`\`${one.const}\``];
    return typesOf(one).map((type) => TYPE_TEXTS[type] ?? type);
  });
  const words = [...new Set(kinds)].filter((word) => word !== TYPE_TEXTS.null);
  if (words.length < 2) return words[0] ?? "a value";
  return `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
}

/** The alternatives of a schema, and of these; the schema itself if it has none. */
export function alternatives(schema: Schema): readonly Schema[] {
  return (schema.oneOf ?? schema.anyOf)?.flatMap(alternatives) ?? [schema];
}

export function typesOf(schema: Schema): readonly string[] {
  const { type } = schema;
  if (type === undefined) return [];
  return typeof type === "string" ? [type] : type;
}

function matches(value: Json, schema: Schema): boolean {
  return alternatives(schema).some((one) => matchesOne(value, one));
}

function matchesOne(value: Json, schema: Schema): boolean {
  if (schema.const !== undefined) return value === schema.const;
  const types = typesOf(schema);
  return types.length === 0 || types.some((type) => isOfType(value, type, schema));
}

function isOfType(value: Json, type: string, schema: Schema): boolean {
  const { items = true, additionalProperties: more = true } = schema;
  switch (type) {
    case "null":
      return value === null;
    case "boolean":
      return typeof value === "boolean";
    case "string":
      return typeof value === "string" && isOfLength(value, schema);
    case "integer":
      return isNumber(value) && isWhole(value) && isInRange(value, schema);
    case "number":
      return isNumber(value);
    case "array":
      return isList(value) && value.every((item) => isValid(item, items));
    case "object":
      return (
        isObject(value) &&
        [...value].every(([key, member]) => {
          return isValid(member, schema.properties?.[key] ?? more);
        })
      );
    default:
      return true;
  }
}

function isValid(value: Json, schema: Schema | boolean): boolean {
  return typeof schema === "boolean" ? schema : valueProblem(value, schema) === undefined;
}

function isOfLength(text: string, { minLength = 0, maxLength = Infinity }: Schema): boolean {
  const { length } = [...text];
  return length >= minLength && length <= maxLength;
}

function isNumber(value: Json): value is number | Numeral {
  return typeof value === "number" || value instanceof Numeral;
}

function isWhole(value: number | Numeral): boolean {
  return /^-?[0-9]+$/.test(numeralText(value));
}

function isInRange(value: number | Numeral, { minimum = -Infinity }: Schema): boolean {
  return Number(numeralText(value)) >= minimum;
}

const TYPE_TEXTS: Readonly<Record<string, string>> = {
  string: "a text",
  integer: "a whole number",
  number: "a number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  null: "nothing",
};

function truncated(text: string): string {
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
}
