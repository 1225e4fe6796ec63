// The field of one option: a control chosen by its schema, or a variable that it is bound to.
// Values that no control can hold are edited as JSON.

import { useEffect, useId, useRef, useState } from "react";
import { bind, setOption, unbind, type ValueSlot, valueAt } from "../../document/configEdits";
import type { CustomSpec } from "../../document/customModules";
import { type Module, variableName } from "../../document/flow";
import { choicesOf } from "../../document/forms/choices";
import { sqlName } from "../../document/forms/sqlName";
import { isList, type Json } from "../../document/json";
import type { Problem } from "../../document/problem";
import { valueProblem } from "../../document/schema";
import type { Schema } from "../../document/specs";
import { useColumnNames } from "../state/inputColumns";
import { edit, endStep, useStudio } from "../state/studioStore";
import { InlineMarkdown } from "../ui/InlineMarkdown";
import { ProblemText } from "../ui/ProblemText";
import { hasMenus, KeyMenus, keyKindOf } from "./KeyMenus";
import { SqlField } from "./SqlField";
import { ChoiceField, type ControlProps, ValueControl } from "./ValueControl";

interface OptionProps {
  readonly module: Module;
  readonly name: string;
  readonly schema: Schema;
  readonly isRequired: boolean;
  /** The custom module whose argument it is; undefined for an option of the module itself. */
  readonly own?: CustomSpec;
}

export function OptionField({ module, name, schema, isRequired, own }: OptionProps) {
  const id = useId();
  const slot: ValueSlot = own === undefined ? name : { spec: own, argument: name };
  const value = valueAt(module, slot);
  const variable = variableName(value);
  const [isBinding, setBinding] = useState(false);
  const binder = useRef<HTMLButtonElement>(null);
  const refused = value === undefined ? undefined : valueProblem(value, schema);
  const found = useStudio(({ problems }) => {
    return problems.find((one) => one.module === module.id && one.option === name);
  });
  const engines = found !== undefined && isShownBelow(found) ? found : undefined;
  const wrong = refused === undefined ? engines : { message: refused };
  useFocusWhenRevealed(id, module.id, name);
  const set = (value: Json | undefined) => {
    const key = `option ${module.id} ${name}`;
    edit(`set ${name}`, (flow) => setOption(flow, module.id, slot, value), key);
  };
  return (
    <div className="field">
      <div className="field-head">
        <label htmlFor={id}>
          {name}
          {isRequired && <span className="required"> required</span>}
        </label>
        <button
          ref={binder}
          type="button"
          className="small"
          aria-pressed={variable !== undefined}
          title={variable === undefined ? "Use a variable" : "Give a value here"}
          onClick={() => {
            if (variable === undefined) setBinding(!isBinding);
            else edit(`unbind ${name}`, (flow) => unbind(flow, module.id, slot));
          }}
        >
          {variable === undefined ? "$" : `$${variable} ×`}
        </button>
      </div>
      {isBinding && variable === undefined && (
        <VariableBinding
          module={module.id}
          name={name}
          slot={slot}
          onDone={() => {
            setBinding(false);
            binder.current?.focus();
          }}
        />
      )}
      {variable === undefined && (
        <OptionControl
          id={id}
          module={module}
          name={name}
          value={value}
          schema={schema}
          isRequired={isRequired}
          set={set}
        />
      )}
      {wrong !== undefined && (
        <p className="wrong-text">
          <ProblemText problem={wrong} />
        </p>
      )}
      <p className="quiet">
        <InlineMarkdown text={schema.description ?? ""} />
      </p>
    </div>
  );
}

/** Gives the focus to an element once its option is revealed. */
function useFocusWhenRevealed(id: string, module: string, option: string): void {
  const isRevealed = useStudio(({ revealedOption }) => {
    return revealedOption?.module === module && revealedOption.option === option;
  });
  useEffect(() => {
    if (!isRevealed) return;
    useStudio.setState({ revealedOption: undefined });
    document.getElementById(id)?.focus();
  }, [isRevealed, id]);
}

/** Options that are a condition or a query in SQL. */
const SQL_OPTIONS: ReadonlySet<string> = new Set(["query", "where"]);

/** The tables of an SQL query: its inputs. */
function tablesOf({ config }: Module): readonly string[] {
  const inputs = config.get("inputs");
  return isList(inputs) ? inputs.filter((one) => typeof one === "string") : ["input"];
}

/** Options that name input columns, directly or in expressions. */
const COLUMN_OPTIONS: ReadonlySet<string> = new Set(["by", "columns", "on", "where"]);

interface OptionControlProps extends ControlProps {
  readonly module: Module;
  readonly name: string;
}

/** Menus for keys and for words of a list; else the control of the schema, with column names. */
function OptionControl({ module, name, ...control }: OptionControlProps) {
  const specs = useStudio(({ specs }) => specs);
  const left = useColumnNames(module.id, module.module === "join" ? "left" : undefined);
  const right = useColumnNames(module.id, "right");
  const all = useColumnNames(module.id);
  const { id, value, set, schema } = control;
  const columns = { left, right };
  const kind = keyKindOf(module.module, name);
  if (kind !== undefined && hasMenus(kind, value, columns)) {
    return <KeyMenus id={id} option={name} kind={kind} value={value} columns={columns} set={set} />;
  }
  const isText = value === undefined || typeof value === "string";
  const isSql = SQL_OPTIONS.has(name) && isText;
  const choices = choicesOf(specs, module.module, name, schema);
  const hasChoices = choices.length > 0 && isText;
  return (
    <>
      {hasChoices && <ChoiceField {...control} choices={choices.map((value) => ({ value }))} />}
      {isSql && (
        <SqlField
          {...control}
          names={{
            columns: all,
            tables: name === "query" ? tablesOf(module) : [],
            isQuery: name === "query",
          }}
        />
      )}
      {!hasChoices && !isSql && <ValueControl {...control} />}
      {COLUMN_OPTIONS.has(name) && (
        <ColumnPicker module={module} option={name} value={value} set={set} />
      )}
    </>
  );
}

interface ColumnPickerProps {
  readonly module: Module;
  readonly option: string;
  readonly value: Json | undefined;
  readonly set: (value: Json | undefined) => void;
}

/** Buttons that insert the names of input columns. */
function ColumnPicker({ module, option, value, set }: ColumnPickerProps) {
  const names = useColumnNames(module.id);
  if (names.length === 0) return null;
  const take = (name: string) => {
    if (option === "where") {
      const before = typeof value === "string" ? value : "";
      const space = /(^|[\s(])$/.test(before) ? "" : " ";
      set(before + space + sqlName(name));
    } else {
      const isExpression = module.module === "project";
      set([...toList(value), isExpression ? sqlName(name) : name]);
    }
    endStep();
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

function toList(value: Json | undefined): readonly Json[] {
  if (isList(value)) return value;
  return value === undefined || value === null ? [] : [value];
}

/** Whether a problem is shown below the field; a missing value is marked at its label. */
function isShownBelow({ message }: Problem): boolean {
  return !message.startsWith("missing field");
}

interface BindingProps {
  readonly module: string;
  readonly name: string;
  readonly slot: ValueSlot;
  readonly onDone: () => void;
}

/** Asks for the name of an existing or new variable to bind to. */
function VariableBinding({ module, name, slot, onDone }: BindingProps) {
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
