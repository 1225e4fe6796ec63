// The form of a group, shown while all of its modules are selected: name, note, folded or not, and
// its modules.

import { changeGroup, type Group, removeGroup } from "../../document/groups";
import { foldGroup } from "../canvas/GroupBox";
import { edit, revealModules } from "../state/studioStore";
import { useDraftInput } from "../ui/useDraftInput";

export function GroupForm({ group }: { readonly group: Group }) {
  const { position, name, note, isFolded, modules } = group;
  const set = (what: "name" | "note") => (text: string) => {
    const key = `group ${position} ${what}`;
    return edit(`${what} of a group`, (flow) => changeGroup(flow, position, { [what]: text }), key);
  };
  const nameDraft = useDraftInput(name, set("name"));
  const noteDraft = useDraftInput(note, set("note"));
  return (
    <fieldset className="group-form">
      <legend>Group</legend>
      <div className="field">
        <label htmlFor="group-name">Title</label>
        <input id="group-name" {...nameDraft} />
      </div>
      <div className="field">
        <label htmlFor="group-note">Note</label>
        <textarea id="group-note" rows={3} {...noteDraft} />
        <p className="quiet">Saved with the flow; changes nothing of the program.</p>
      </div>
      <label className="switch">
        <input type="checkbox" checked={isFolded} onChange={() => foldGroup(group)} />
        Folded: one card instead of its modules
      </label>
      <div className="row wrap">
        {modules.map((id) => (
          <button
            type="button"
            className="small"
            key={id}
            onClick={() => revealModules(new Set([id]))}
          >
            {id}
          </button>
        ))}
      </div>
      <button
        type="button"
        onClick={() => edit(`ungroup ${name}`, (flow) => removeGroup(flow, position))}
      >
        Ungroup
      </button>
    </fieldset>
  );
}
