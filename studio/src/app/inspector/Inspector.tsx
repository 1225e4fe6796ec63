// The inspector: forms for the selected module, the selected queue, or the flow.

import { setName } from "../../document/edits";
import { type Flow, moduleOf } from "../../document/flow";
import { edit, useStudio } from "../state/studioStore";
import { pluralize } from "../ui/format";
import { useDraftInput } from "../ui/useDraftInput";
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
  return (
    <aside className="inspector" aria-label="Details">
      {module !== undefined && <ModuleForm key={module.id} module={module} />}
      {module === undefined && queue !== undefined && (
        <QueueForm key={number} queue={queue} number={number ?? 0} />
      )}
      {module === undefined && queue === undefined && (
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
      {count > 1 && <p>{count} modules are selected.</p>}
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
