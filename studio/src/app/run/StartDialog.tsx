// Dialog with the settings of a run: variables, cluster, threads, memory.

import { useId, useState } from "react";
import { bytesOf } from "../../document/byteSize";
import { whyNotVariable } from "../../document/configEdits";
import type { Flow } from "../../document/flow";
import { ValueField } from "../inspector/ValueControl";
import { actionOf } from "../shell/actions";
import { missingFor, useSettings } from "../state/runSettings";
import { useServer } from "../state/serverStore";
import { useStudio } from "../state/studioStore";
import { showDialog } from "../state/viewStore";
import { bytesText } from "../ui/format";
import { apart } from "../ui/isolateBidi";
import { Answers, Modal } from "../ui/Modal";
import { Checked } from "../ui/ValidatedInput";
import { start } from "./runControl";

export function StartDialog() {
  const flow = useStudio(({ history }) => history.now);
  const specs = useStudio(({ specs }) => specs);
  const session = useServer(({ session }) => session);
  const { cluster, threads: threadsLast, memory: memoryLast } = useSettings();
  const [threads, setThreads] = useState(String(threadsLast ?? ""));
  const [memory, setMemory] = useState(memoryLast ?? "");
  const faults = { threads: threadsFault(threads), memory: memoryFault(memory) };
  const values = useSettings(({ variables }) => variables);
  const variables = [...flow.variables].map(([name, { default: usual }]) => {
    const value = values.get(name) ?? usual;
    const fault = value === undefined ? undefined : whyNotVariable(flow, specs, name, value);
    return { name, fault };
  });
  const all = [faults.threads, faults.memory, ...variables.map(({ fault }) => fault)];
  const isWrong = all.some((fault) => fault !== undefined);
  const leave = () => showDialog(undefined);
  return (
    <Modal title={`Run ${apart(flow.name)}`} onClose={leave}>
      <form
        className="fields"
        method="dialog"
        onSubmit={() => {
          useSettings.setState({
            threads: isNothing(threads) ? undefined : Number(threads),
            memory: isNothing(memory) ? undefined : memory.trim(),
          });
          void start();
        }}
      >
        {variables.map(({ name, fault }) => (
          <Value key={name} flow={flow} name={name} fault={fault} />
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
        <Checked
          label="Threads"
          placeholder={`all of ${session?.machine.processors ?? "this machine"}`}
          value={threads}
          fault={faults.threads}
          onValue={setThreads}
        />
        <Checked
          label="Memory"
          placeholder={session ? `part of ${bytesText(session.machine.memory)}` : "1GiB"}
          value={memory}
          fault={faults.memory}
          onValue={setMemory}
        />
        <Answers yes={actionOf("run").label} disabled={isWrong} onLeave={leave} />
      </form>
    </Modal>
  );
}

function isNothing(text: string): boolean {
  return text.trim() === "";
}

function threadsFault(text: string): string | undefined {
  const isCount = /^\s*0*[1-9]\d*\s*$/.test(text);
  return isNothing(text) || isCount ? undefined : "A whole number above 0, or nothing.";
}

function memoryFault(text: string): string | undefined {
  const isSize = bytesOf(text) !== undefined;
  return isNothing(text) || isSize ? undefined : "A size like 512MiB or 4GB, or nothing.";
}

interface ValueProps {
  readonly flow: Flow;
  readonly name: string;
  /** Why its value is invalid. */
  readonly fault: string | undefined;
}

function Value({ flow, name, fault }: ValueProps) {
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
      {fault !== undefined && <p className="wrong-text">{fault}</p>}
      {doc !== undefined && <p className="quiet">{doc}</p>}
    </div>
  );
}
