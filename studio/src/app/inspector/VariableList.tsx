// The variables of a flow: names, defaults, descriptions, and where each is used.

import { useId } from "react";
import { removeVariable, renameVariable, setVariable, usesOf } from "../../document/configEdits";
import type { Flow, Variable } from "../../document/flow";
import { edit, revealModules } from "../state/studioStore";
import { NameField } from "../ui/NameField";
import { useDraftInput } from "../ui/useDraftInput";
import { ValueField } from "./ValueControl";

export function VariableList({ flow }: { readonly flow: Flow }) {
  return (
    <section>
      <h2>Variables</h2>
      {[...flow.variables].map(([name, variable]) => (
        <Entry key={name} flow={flow} name={name} variable={variable} />
      ))}
      {flow.variables.size === 0 && (
        <p className="quiet">None. The $ beside an option turns it into a variable.</p>
      )}
      <button type="button" onClick={() => edit("declare a variable", declareVariable)}>
        Add a variable
      </button>
    </section>
  );
}

function declareVariable(flow: Flow): Flow {
  let number = 1;
  while (flow.variables.has(`variable_${number}`)) number += 1;
  return setVariable(flow, `variable_${number}`, {});
}

interface EntryProps {
  readonly flow: Flow;
  readonly name: string;
  readonly variable: Variable;
}

function Entry({ flow, name, variable }: EntryProps) {
  const id = useId();
  const uses = usesOf(flow, name);
  const set = (change: Partial<Variable>, what: string) =>
    edit(`set ${name}`, (flow) => setVariable(flow, name, change), `variable ${name} ${what}`);
  const doc = useDraftInput(variable.doc ?? "", (text) =>
    set({ doc: text === "" ? undefined : text }, "doc"),
  );
  return (
    <fieldset>
      <div className="row">
        <NameField
          label="Name of the variable"
          name={name}
          onName={(to) => edit("rename a variable", (flow) => renameVariable(flow, name, to))}
        />
        <button
          type="button"
          title="Remove the variable; its default stays where it was used"
          onClick={() => edit("remove a variable", (flow) => removeVariable(flow, name))}
        >
          Remove
        </button>
      </div>
      <label htmlFor={id}>Default</label>
      <ValueField
        id={id}
        value={variable.default}
        set={(value) => set({ default: value ?? undefined }, "default")}
      />
      <label>
        Description
        <input {...doc} />
      </label>
      {uses.length === 0 && <p className="quiet">Not used yet.</p>}
      {uses.map(({ module, option }) => (
        <button
          type="button"
          className="link"
          key={`${module} ${option}`}
          onClick={() => revealModules(new Set([module]))}
        >
          {module}.{option}
        </button>
      ))}
    </fieldset>
  );
}
