// How a flow is run: the values of its variables, the cluster, how much of the machine.

import { useId } from "react";
import type { Flow } from "../document/flow";
import { actionOf } from "./actions";
import { ValueField } from "./Field";
import { Answers, Modal } from "./Modal";
import { bytesText } from "./numbers";
import { start } from "./running";
import { useServer } from "./server";
import { useStudio } from "./studio";
import { missingFor, useSettings } from "./variables";
import { showDialog } from "./view";

export function StartDialog() {
  const flow = useStudio(({ history }) => history.now);
  const session = useServer(({ session }) => session);
  const { cluster, threads, memory } = useSettings();
  const leave = () => showDialog(undefined);
  return (
    <Modal title={`Run ${flow.name}`} onClose={leave}>
      <form
        className="fields"
        method="dialog"
        onSubmit={() => {
          void start();
        }}
      >
        {[...flow.variables.keys()].map((name) => (
          <Value key={name} flow={flow} name={name} />
        ))}
        <div className="field">
          <label htmlFor="cluster">On</label>
          <select
            id="cluster"
            value={cluster}
            onChange={({ target }) => useSettings.setState({ cluster: target.value })}
          >
            {(session?.clusters ?? [""]).map((one) => (
              <option key={one} value={one}>
                {one === "" ? "this machine, one process" : one}
              </option>
            ))}
          </select>
        </div>
        <div className="field">
          <label htmlFor="threads">Threads</label>
          <input
            id="threads"
            inputMode="numeric"
            placeholder={`all of ${session?.machine.processors ?? "this machine"}`}
            defaultValue={threads ?? ""}
            onChange={({ target }) => {
              const given = Number.parseInt(target.value, 10);
              useSettings.setState({ threads: given > 0 ? given : undefined });
            }}
          />
        </div>
        <div className="field">
          <label htmlFor="memory">Memory</label>
          <input
            id="memory"
            placeholder={session ? `part of ${bytesText(session.machine.memory)}` : "1GiB"}
            defaultValue={memory ?? ""}
            onChange={({ target }) => {
              const given = target.value.trim();
              useSettings.setState({ memory: given === "" ? undefined : given });
            }}
          />
        </div>
        <Answers yes={actionOf("run").label} onLeave={leave} />
      </form>
    </Modal>
  );
}

function Value({ flow, name }: { readonly flow: Flow; readonly name: string }) {
  const id = useId();
  const given = useSettings(({ variables }) => variables.get(name));
  const { default: usual, doc } = flow.variables.get(name) ?? {};
  const isMissing = missingFor(flow).includes(name);
  return (
    <div className="field">
      <label htmlFor={id}>
        {name}
        {isMissing && <span className="required"> needed</span>}
      </label>
      <ValueField
        id={id}
        value={given ?? usual}
        set={(value) =>
          useSettings.setState(({ variables }) => {
            const now = new Map(variables);
            if (value === undefined) now.delete(name);
            else now.set(name, value);
            return { variables: now };
          })
        }
      />
      {doc !== undefined && <p className="quiet">{doc}</p>}
    </div>
  );
}
