// The field of one option: a control chosen by its schema, or a variable that it is bound to.
// Values that no control can hold are edited as JSON.

import { useId, useState } from "react";
import { bind, type Slot, setOption, unbind, valueAt } from "../../document/configEdits";
import type { OwnSpec } from "../../document/customModules";
import { type Module, variableName } from "../../document/flow";
import { isList, type Json, printOnOneLine, readJson } from "../../document/json";
import { Numeral, numberOf, numeralText } from "../../document/numeral";
import { alternatives, typesOf, whyNotValue } from "../../document/schema";
import type { Schema } from "../../document/specs";
import { edit, settle, useStudio } from "../state/studioStore";
import { Words } from "../ui/InlineMarkdown";
import { useDraft } from "../ui/useDraftInput";

interface OptionProps {
  readonly module: Module;
  readonly name: string;
  readonly schema: Schema;
  readonly isRequired: boolean;
  /** The custom module whose argument it is; undefined for an option of the module itself. */
  readonly own?: OwnSpec;
}

export function Option({ module, name, schema, isRequired, own }: OptionProps) {
  const id = useId();
  const slot: Slot = own === undefined ? name : { spec: own, argument: name };
  const value = valueAt(module, slot);
  const variable = variableName(value);
  const [isBinding, setBinding] = useState(false);
  const refused = value === undefined ? undefined : whyNotValue(value, schema);
  const found = useStudio(({ problems }) => {
    return problems.find((one) => one.module === module.id && one.option === name)?.message;
  });
  const wrong = refused ?? (isTold(found) ? found : undefined);
  const set = (value: Json | undefined) => {
    const key = `option ${module.id} ${name}`;
    edit(`set ${name}`, (flow) => setOption(flow, module.id, slot, value), key);
  };
  return (
    <div className="field">
      <div className="field-head">
        <label htmlFor={id}>
          {name}
          {isRequired && <span className="required"> needed</span>}
        </label>
        <button
          type="button"
          className="small"
          aria-pressed={variable !== undefined}
          title={variable === undefined ? "Take it from a variable" : "Say it here"}
          onClick={() => {
            if (variable === undefined) setBinding(!isBinding);
            else edit(`unbind ${name}`, (flow) => unbind(flow, module.id, slot));
          }}
        >
          {variable === undefined ? "$" : `$${variable} ×`}
        </button>
      </div>
      {isBinding && variable === undefined && (
        <Binding module={module.id} name={name} slot={slot} onDone={() => setBinding(false)} />
      )}
      {variable === undefined && (
        <Control id={id} value={value} schema={schema} isRequired={isRequired} set={set} />
      )}
      {variable === undefined && NAMES_COLUMNS.has(name) && (
        <ColumnNames module={module.id} option={name} value={value} set={set} />
      )}
      {wrong !== undefined && <p className="wrong-text">{wrong}</p>}
      <p className="quiet">
        <Words text={schema.description ?? ""} />
      </p>
    </div>
  );
}

/** Options that name input columns, directly or in expressions. */
const NAMES_COLUMNS: ReadonlySet<string> = new Set(["by", "columns", "on", "where"]);

interface ColumnNamesProps {
  readonly module: string;
  readonly option: string;
  readonly value: Json | undefined;
  readonly set: (value: Json | undefined) => void;
}

/** Buttons that insert the names of input columns. */
function ColumnNames({ module, option, value, set }: ColumnNamesProps) {
  const queues = useStudio(({ checked }) => checked.queues);
  const incoming = queues.filter(({ to }) => to === module || to.startsWith(`${module}_`));
  const names = [...new Set(incoming.flatMap(({ schema }) => schema.map(({ name }) => name)))];
  if (names.length === 0) return null;
  const take = (name: string) => {
    if (option !== "where") set([...(isList(value) ? value : isGiven(value)), name]);
    else set(typeof value === "string" && value !== "" ? `${value} ${name}` : name);
    settle();
  };
  return (
    <fieldset className="columns" aria-label={`Columns for ${option}`}>
      {names.map((name) => (
        <button type="button" className="small" key={name} onClick={() => take(name)}>
          {name}
        </button>
      ))}
    </fieldset>
  );
}

function isGiven(value: Json | undefined): readonly Json[] {
  return value === undefined || value === null ? [] : [value];
}

/** Whether a problem is shown below the field; a missing value is marked at its label. */
function isTold(message: string | undefined): boolean {
  return message !== undefined && !message.startsWith("missing field");
}

interface BindingProps {
  readonly module: string;
  readonly name: string;
  readonly slot: Slot;
  readonly onDone: () => void;
}

/** Asks for the name of an existing or new variable to bind to. */
function Binding({ module, name, slot, onDone }: BindingProps) {
  const variables = useStudio(({ history }) => history.now.variables);
  const [variable, setVariable] = useState(name);
  const known = useId();
  return (
    <form
      className="row"
      onSubmit={(event) => {
        event.preventDefault();
        if (edit(`bind ${name}`, (flow) => bind(flow, module, slot, variable))) onDone();
      }}
    >
      <input
        aria-label="Variable"
        list={known}
        value={variable}
        // biome-ignore lint/a11y/noAutofocus: opened by the button beside it
        autoFocus
        onChange={(event) => setVariable(event.target.value)}
        onKeyDown={(event) => event.key === "Escape" && onDone()}
      />
      <datalist id={known}>
        {[...variables.keys()].map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <button type="submit">Bind</button>
    </form>
  );
}

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
