// Controls that edit a value, chosen by its schema: choice, number, text, lines or JSON.

import { isList, type Json, printOnOneLine, readJson } from "../../document/json";
import { Numeral, numberOf, numeralText } from "../../document/numeral";
import { alternatives, typesOf } from "../../document/schema";
import type { Schema } from "../../document/specs";
import { settle } from "../state/studioStore";
import { useDraft } from "../ui/useDraftInput";

interface ControlProps {
  readonly id: string;
  readonly value: Json | undefined;
  readonly schema: Schema;
  readonly isRequired?: boolean;
  readonly set: (value: Json | undefined) => void;
}

export function Control(props: ControlProps) {
  const { value, schema } = props;
  const all = alternatives(schema);
  const types = new Set(all.flatMap(typesOf));
  const takes = (...kinds: string[]) => [...types].every((type) => kinds.includes(type));
  if (all.every((one) => one.const !== undefined)) return <Choice {...props} choices={all} />;
  if (types.size > 0) {
    if (takes("boolean", "null")) return <Choice {...props} choices={TRUTHS} />;
    if (takes("integer", "number", "null")) return <NumberField {...props} />;
    if (takes("string", "null") && isText(value)) return <TextField {...props} />;
    const isTexts = isLine(value) || (isList(value) && value.every(isLine));
    const isLines = takes("string", "array", "null") && isTexts && itemsAreTexts(all);
    if (isLines && (types.has("array") || isText(value))) return <LinesField {...props} />;
  }
  return <JsonField {...props} />;
}

const TRUTHS = [{ value: true }, { value: false }] as const;

function isText(value: Json | undefined): boolean {
  return value === undefined || value === null || typeof value === "string";
}

/** Whether a value fits into one line of a multi-line field. */
function isLine(value: Json | undefined): boolean {
  return isText(value) && value !== "" && !/[\r\n]/.test(String(value));
}

function itemsAreTexts(all: readonly Schema[]): boolean {
  return all.every(({ items }) => {
    if (typeof items !== "object") return items !== true;
    return alternatives(items).some((one) => typesOf(one).includes("string"));
  });
}

interface ChoiceProps extends ControlProps {
  readonly choices: readonly (Schema | (typeof TRUTHS)[number])[];
}

function Choice({ id, value, schema, choices, set }: ChoiceProps) {
  const values = choices.map((one) => ("value" in one ? one.value : (one.const ?? "")));
  const usual = schema.default === undefined || schema.default === null ? "" : schema.default;
  const isStrange = value !== undefined && values.every((one) => one !== value);
  return (
    <select
      id={id}
      value={value === undefined ? "" : printOnOneLine(value)}
      onChange={(event) => {
        const found = values.find((one) => printOnOneLine(one) === event.target.value);
        set(found);
        settle();
      }}
    >
      <option value="">{usual === "" ? "—" : `as usual: ${String(usual)}`}</option>
      {isStrange && <option value={printOnOneLine(value)}>{printOnOneLine(value)}</option>}
      {values.map((one, i) => (
        <option key={String(one)} value={printOnOneLine(one)} title={descriptionOf(choices[i])}>
          {String(one)}
        </option>
      ))}
    </select>
  );
}

function descriptionOf(choice: Schema | (typeof TRUTHS)[number] | undefined): string | undefined {
  return choice !== undefined && "description" in choice ? choice.description : undefined;
}

function placeholder({ default: usual }: Schema): string {
  return usual === undefined || usual === null ? "" : `as usual: ${String(usual)}`;
}

/** A parsed text: a value, or none for an empty text; undefined if it is invalid. */
export type Said = { readonly value: Json | undefined } | undefined;

function numberSaid(typed: string): Said {
  const plain = typed.trim().replaceAll("_", "");
  if (plain === "") return { value: undefined };
  const isLiteral = /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/.test(plain);
  const value = isLiteral ? numberOf(plain) : undefined;
  return value === undefined ? undefined : { value };
}

function jsonSaid(typed: string): Said {
  if (typed.trim() === "") return { value: undefined };
  const { value, isWhole } = readJson(typed);
  return isWhole ? { value } : undefined;
}

/** Props of an input that sets its value whenever its text parses. */
export function useSaid(text: string, read: (typed: string) => Said, set: ControlProps["set"]) {
  const draft = useDraft(text, (typed) => {
    const said = read(typed);
    if (said !== undefined) set(said.value);
    return said !== undefined;
  });
  return { ...draft, "aria-invalid": read(draft.value) === undefined };
}

function NumberField({ id, value, schema, set }: ControlProps) {
  const isNumber = typeof value === "number" || value instanceof Numeral;
  const text = value === undefined ? "" : isNumber ? numeralText(value) : printOnOneLine(value);
  const isFraction = alternatives(schema).flatMap(typesOf).includes("number");
  const draft = useSaid(text, numberSaid, set);
  const mode = isFraction ? "decimal" : "numeric";
  return <input {...draft} id={id} inputMode={mode} placeholder={placeholder(schema)} />;
}

function TextField({ id, value, schema, set }: ControlProps) {
  const draft = useDraft(typeof value === "string" ? value : "", (typed) => {
    set(typed === "" ? undefined : typed);
    return true;
  });
  return <textarea {...draft} id={id} rows={1} placeholder={placeholder(schema)} />;
}

/** A list of texts, one a line; a single line is a text where the schema takes one. */
function LinesField({ id, value, schema, set }: ControlProps) {
  const takesOne = alternatives(schema).some((one) => typesOf(one).includes("string"));
  const given = isList(value) ? value : typeof value === "string" ? [value] : [];
  const draft = useDraft(given.join("\n"), (typed) => {
    const lines = typed.split("\n").filter((line) => line !== "");
    const [only, ...more] = lines;
    const isOne = takesOne && !isList(value) && more.length === 0;
    set(isOne || lines.length === 0 ? only : lines);
    return true;
  });
  const rows = Math.min(Math.max(given.length + 1, 2), 8);
  return <textarea {...draft} id={id} rows={rows} placeholder="one a line" />;
}

function JsonField({ id, value, set }: ControlProps) {
  const draft = useSaid(value === undefined ? "" : printOnOneLine(value), jsonSaid, set);
  return <textarea {...draft} id={id} rows={2} spellCheck={false} placeholder="JSON" />;
}

/** Any value: JSON, or else text, as for `euphrates run -p name=value`. */
export function ValueField({ id, value, set }: Omit<ControlProps, "schema">) {
  const isPlain = typeof value === "string" && value !== "" && !readJson(value).isWhole;
  const text = value === undefined ? "" : isPlain ? value : printOnOneLine(value);
  const read = (typed: string): Said => jsonSaid(typed) ?? { value: typed };
  const draft = useSaid(text, read, set);
  return <textarea {...draft} id={id} rows={1} spellCheck={false} placeholder="text or JSON" />;
}
