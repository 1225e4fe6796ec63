// The inspector: forms for the selected module, the selected queue, or the flow.

import { useLayoutEffect, useRef } from "react";
import { setName } from "../../document/edits";
import { type Flow, moduleOf } from "../../document/flow";
import { groupOf } from "../../document/groups";
import { actionOf } from "../shell/actions";
import { edit, useStudio } from "../state/studioStore";
import { pluralize } from "../ui/format";
import { useDraftInput } from "../ui/useDraftInput";
import { GroupForm } from "./GroupForm";
import { ModuleForm } from "./ModuleForm";
import { QueueForm } from "./QueueForm";
import { VariableList } from "./VariableList";

export function Inspector() {
  const { history, selectedModules, selectedQueues } = useStudio();
  const flow = history.now;
  const [id] = selectedModules;
  const [number] = selectedQueues;
  const module = selectedModules.size === 1 && id !== undefined ? moduleOf(flow, id) : undefined;
  const queue = number === undefined ? undefined : flow.queues[number];
  const group = groupOf(flow, selectedModules);
  const form = useRef<HTMLElement>(null);
  const shown = `${group?.position} ${module?.id} ${module === undefined && number}`;
  // Another form begins at its top.
  // biome-ignore lint/correctness/useExhaustiveDependencies: it runs for each form
  useLayoutEffect(() => {
    if (form.current !== null) form.current.scrollTop = 0;
  }, [shown]);
  return (
    <aside ref={form} className="inspector" aria-label="Details">
      {group !== undefined && <GroupForm key={`group ${group.position}`} group={group} />}
      {module !== undefined && <ModuleForm key={module.id} module={module} />}
      {module === undefined && queue !== undefined && (
        <QueueForm key={number} queue={queue} number={number ?? 0} />
      )}
      {module === undefined && queue === undefined && group === undefined && (
        <FlowForm flow={flow} count={selectedModules.size} />
      )}
    </aside>
  );
}

function FlowForm({ flow, count }: { readonly flow: Flow; readonly count: number }) {
  const draft = useDraftInput(flow.name, (name) =>
    edit("name the flow", (flow) => setName(flow, name), "name"),
  );
  return (
    <>
      {count > 1 && (
        <div className="row">
          <p>{count} modules are selected.</p>
          <button type="button" onClick={actionOf("bundle").run}>
            {actionOf("bundle").label}
          </button>
        </div>
      )}
      <div className="field">
        <label htmlFor="name">The flow</label>
        <input id="name" {...draft} />
        <p className="quiet">
          {pluralize(flow.modules.length, "module")}, {pluralize(flow.queues.length, "queue")}
        </p>
      </div>
      <VariableList flow={flow} />
    </>
  );
}
