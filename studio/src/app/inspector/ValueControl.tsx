// Controls that edit a value, chosen by its schema: choice, number, text, lines, names with texts,
// or JSON.

import {
  isList,
  isObject,
  type Json,
  type JsonObject,
  printOnOneLine,
  readJson,
  sameJson,
} from "../../document/json";
import { Numeral, numberOf, numeralText } from "../../document/numeral";
import { alternatives, typesOf } from "../../document/schema";
import type { Schema } from "../../document/specs";
import { endStep } from "../state/studioStore";
import { useDraftInput } from "../ui/useDraftInput";

export interface ControlProps {
  readonly id: string;
  readonly value: Json | undefined;
  readonly schema: Schema;
  readonly isRequired?: boolean;
  readonly set: (value: Json | undefined) => void;
}

export function ValueControl(props: ControlProps) {
  const { value, schema } = props;
  const all = alternatives(schema);
  const words = all.filter((one) => typesOf(one).join() !== "null");
  const types = new Set(all.flatMap(typesOf));
  const takes = (...kinds: string[]) => [...types].every((type) => kinds.includes(type));
  if (words.length > 0 && words.every((one) => one.const !== undefined)) {
    return <ChoiceField {...props} choices={words} />;
  }
  if (types.size > 0) {
    if (takes("boolean", "null")) return <ChoiceField {...props} choices={BOOLEANS} />;
    if (takes("integer", "number", "null")) return <NumberField {...props} />;
    if (takes("string", "null") && isText(value)) return <TextField {...props} />;
    const isTexts = isSingleLine(value) || (isList(value) && value.every(isSingleLine));
    const isLines = takes("string", "array", "null") && isTexts && areItemsTexts(all);
    if (isLines && (types.has("array") || isText(value))) return <LinesField {...props} />;
    if (takes("object", "null") && areTextsByName(schema, value)) return <NamedField {...props} />;
  }
  return <JsonField {...props} />;
}

/** Whether a schema is of texts by name, and the value can be written as lines `name = text`. */
function areTextsByName({ additionalProperties: more }: Schema, value: Json | undefined): boolean {
  const isOfTexts = typeof more === "object" && typesOf(more).join() === "string";
  if (!isOfTexts || value === undefined || value === null) return isOfTexts;
  return (
    isObject(value) && !value.has("$var") && sameJson(parseNamed(namedText(value))?.value, value)
  );
}

interface Choice {
  readonly value: Json;
}

const BOOLEANS: readonly Choice[] = [{ value: true }, { value: false }];

function isText(value: Json | undefined): boolean {
  return value === undefined || value === null || typeof value === "string";
}

/** Whether a value fits into one line of a multi-line field. */
function isSingleLine(value: Json | undefined): boolean {
  return isText(value) && value !== "" && !/[\r\n]/.test(String(value));
}

function areItemsTexts(all: readonly Schema[]): boolean {
  return all.every(({ items }) => {
    if (typeof items !== "object") return items !== true;
    return alternatives(items).some((one) => typesOf(one).includes("string"));
  });
}

interface ChoiceProps extends ControlProps {
  readonly choices: readonly (Schema | Choice)[];
}

export function ChoiceField({ id, value, schema, choices, set }: ChoiceProps) {
  const values = choices.map((one) => ("value" in one ? one.value : (one.const ?? "")));
  const defaultValue =
    schema.default === undefined || schema.default === null ? "" : schema.default;
  const isStrange = value !== undefined && values.every((one) => one !== value);
  return (
    <select
      id={id}
      value={value === undefined ? "" : printOnOneLine(value)}
      onChange={(event) => {
        const found = values.find((one) => printOnOneLine(one) === event.target.value);
        set(found);
        endStep();
      }}
    >
      <option value="">
        {defaultValue === "" ? "default" : `default: ${defaultText(defaultValue)}`}
      </option>
      {isStrange && <option value={printOnOneLine(value)}>{printOnOneLine(value)}</option>}
      {values.map((one, i) => (
        <option key={String(one)} value={printOnOneLine(one)} title={descriptionOf(choices[i])}>
          {defaultText(one)}
        </option>
      ))}
    </select>
  );
}

/** A default as text: switches are on or off. */
function defaultText(value: unknown): string {
  if (typeof value === "boolean") return value ? "on" : "off";
  return String(value);
}

function descriptionOf(choice: Schema | Choice | undefined): string | undefined {
  return choice !== undefined && "description" in choice ? choice.description : undefined;
}

function placeholder({ default: defaultValue }: Schema): string {
  return defaultValue === undefined || defaultValue === null
    ? ""
    : `default: ${String(defaultValue)}`;
}

/** A parsed text: a value, or none for an empty text; undefined if it is invalid. */
export type Parsed = { readonly value: Json | undefined } | undefined;

function parseNumber(typed: string): Parsed {
  const plain = typed.trim().replaceAll("_", "");
  if (plain === "") return { value: undefined };
  const isLiteral = /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/.test(plain);
  const value = isLiteral ? numberOf(plain) : undefined;
  return value === undefined ? undefined : { value };
}

function parseJson(typed: string): Parsed {
  if (typed.trim() === "") return { value: undefined };
  const { value, isComplete } = readJson(typed);
  return isComplete ? { value } : undefined;
}

/** Props of an input that sets its value whenever its text parses. */
export function useParsedInput(
  text: string,
  read: (typed: string) => Parsed,
  set: ControlProps["set"],
) {
  const draft = useDraftInput(text, (typed) => {
    const parsed = read(typed);
    if (parsed !== undefined) set(parsed.value);
    return parsed !== undefined;
  });
  return { ...draft, "aria-invalid": read(draft.value) === undefined };
}

function NumberField({ id, value, schema, set }: ControlProps) {
  const isNumber = typeof value === "number" || value instanceof Numeral;
  const text = value === undefined ? "" : isNumber ? numeralText(value) : printOnOneLine(value);
  const isFraction = alternatives(schema).flatMap(typesOf).includes("number");
  const draft = useParsedInput(text, parseNumber, set);
  const mode = isFraction ? "decimal" : "numeric";
  return <input {...draft} id={id} inputMode={mode} placeholder={placeholder(schema)} />;
}

function TextField({ id, value, schema, set }: ControlProps) {
  const draft = useDraftInput(typeof value === "string" ? value : "", (typed) => {
    set(typed === "" ? undefined : typed);
    return true;
  });
  return <textarea {...draft} id={id} rows={1} placeholder={placeholder(schema)} />;
}

/** A list of texts, one a line; a single line is a text where the schema takes one. */
function LinesField({ id, value, schema, set }: ControlProps) {
  const takesOne = alternatives(schema).some((one) => typesOf(one).includes("string"));
  const given = isList(value) ? value : typeof value === "string" ? [value] : [];
  const draft = useDraftInput(given.join("\n"), (typed) => {
    const lines = typed.split("\n").filter((line) => line !== "");
    const [only, ...more] = lines;
    const isOne = takesOne && !isList(value) && more.length === 0;
    set(isOne || lines.length === 0 ? only : lines);
    return true;
  });
  const rows = Math.min(Math.max(given.length + 1, 2), 8);
  return <textarea {...draft} id={id} rows={rows} placeholder="one a line" />;
}

/** Texts by name, one a line: `total = sum(price)`. JSON is taken as well. */
function NamedField({ id, value, set }: ControlProps) {
  const text = isObject(value) ? namedText(value) : "";
  const draft = useParsedInput(text, parseNamed, set);
  const rows = Math.min(Math.max(text.split("\n").length + 1, 2), 8);
  const example = "name = value, one a line";
  return <textarea {...draft} id={id} rows={rows} spellCheck={false} placeholder={example} />;
}

function namedText(value: JsonObject): string {
  return [...value].map(([name, text]) => `${name} = ${String(text)}`).join("\n");
}

function parseNamed(typed: string): Parsed {
  if (typed.trimStart().startsWith("{")) return parseJson(typed);
  const lines = typed.split("\n").filter((line) => line.trim() !== "");
  const pairs = lines.map((line) =>
    /^\s*([^=\s](?:[^=]*[^=\s])?)\s*=\s*(\S.*)$/.exec(line.trimEnd()),
  );
  const found = pairs.flatMap((pair) => (pair === null ? [] : [[pair[1] ?? "", pair[2] ?? ""]]));
  if (found.length < lines.length) return undefined;
  const value = new Map(found as [string, string][]);
  if (value.size < lines.length) return undefined;
  return { value: value.size === 0 ? undefined : value };
}

function JsonField({ id, value, set }: ControlProps) {
  const draft = useParsedInput(value === undefined ? "" : printOnOneLine(value), parseJson, set);
  return <textarea {...draft} id={id} rows={2} spellCheck={false} placeholder="JSON" />;
}

/** Any value: JSON, or else text, as for `euphrates run -p name=value`. */
export function ValueField({ id, value, set }: Omit<ControlProps, "schema">) {
  const isPlain = typeof value === "string" && value !== "" && !readJson(value).isComplete;
  const text = value === undefined ? "" : isPlain ? value : printOnOneLine(value);
  const read = (typed: string): Parsed => parseJson(typed) ?? { value: typed };
  const draft = useParsedInput(text, read, set);
  return <textarea {...draft} id={id} rows={1} spellCheck={false} placeholder="text or JSON" />;
}
