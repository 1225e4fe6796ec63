// Dialog with the settings of a run: variables, cluster, cores, memory.

import { useId, useState } from "react";
import { parseBytes } from "../../document/byteSize";
import { variableProblem } from "../../document/configEdits";
import type { Flow } from "../../document/flow";
import { ValueField } from "../inspector/ValueControl";
import { actionOf } from "../shell/actions";
import { useConnections } from "../state/connectionStore";
import { missingVariables, useRunSettings } from "../state/runSettings";
import { useServer } from "../state/serverStore";
import { useStudio } from "../state/studioStore";
import { showDialog } from "../state/viewStore";
import { formatBytes } from "../ui/format";
import { InlineMarkdown } from "../ui/InlineMarkdown";
import { isolateBidi } from "../ui/isolateBidi";
import { DialogButtons, Modal } from "../ui/Modal";
import { ValidatedInput } from "../ui/ValidatedInput";
import { canReplace } from "./outputs";
import { startRun } from "./runControl";

export function StartDialog() {
  const flow = useStudio(({ history }) => history.now);
  const specs = useStudio(({ specs }) => specs);
  const session = useServer(({ session }) => session);
  const connections = useConnections(({ connections }) => connections);
  const named = connections.flatMap(({ name, values }) => {
    const where = values.get("where");
    return where === undefined ? [] : [{ name, where }];
  });
  const { cluster, threads: threadsLast, memory: memoryLast } = useRunSettings();
  const [threads, setThreads] = useState(String(threadsLast ?? ""));
  const [memory, setMemory] = useState(memoryLast ?? "");
  const [replaced, setReplaced] = useState<readonly string[]>([]);
  const faults = { threads: threadsError(threads), memory: memoryError(memory) };
  const values = useRunSettings(({ variables }) => variables);
  const variables = [...flow.variables].map(([name, { default: defaultValue }]) => {
    const value = values.get(name) ?? defaultValue;
    const fault = value === undefined ? undefined : variableProblem(flow, specs, name, value);
    return { name, fault };
  });
  const all = [faults.threads, faults.memory, ...variables.map(({ fault }) => fault)];
  const isWrong = all.some((fault) => fault !== undefined);
  const close = () => showDialog(undefined);
  return (
    <Modal title={`Run ${isolateBidi(flow.name)}`} onClose={close}>
      <form
        className="fields"
        method="dialog"
        onSubmit={() => {
          useRunSettings.setState({
            threads: isBlank(threads) ? undefined : Number(threads),
            memory: isBlank(memory) ? undefined : memory.trim(),
          });
          void startRun({ replaced });
        }}
      >
        {variables.map(({ name, fault }) => (
          <VariableField key={name} flow={flow} name={name} fault={fault} />
        ))}
        <div className="field">
          <label htmlFor="cluster">Run on</label>
          <div className="row">
            <select
              id="cluster"
              value={cluster}
              onChange={({ target }) => useRunSettings.setState({ cluster: target.value })}
            >
              {(session?.clusters ?? [""]).map((one) => (
                <option key={one} value={one}>
                  {one === "" ? "this machine, one process" : one}
                </option>
              ))}
              {named.map(({ name, where }) => (
                <option key={name} value={where}>
                  {name} ({where})
                </option>
              ))}
            </select>
            <button type="button" onClick={() => showDialog("connections")}>
              Connections…
            </button>
          </div>
        </div>
        <ValidatedInput
          label="Cores"
          placeholder={`all of ${session?.machine.processors ?? "this machine"}`}
          value={threads}
          error={faults.threads}
          onValue={setThreads}
        />
        <ValidatedInput
          label="Memory"
          placeholder={session ? `70 % of ${formatBytes(session.machine.memory)}` : "1GiB"}
          value={memory}
          error={faults.memory}
          onValue={setMemory}
        />
        <ReplaceFields flow={flow} replaced={replaced} onReplaced={setReplaced} />
        <DialogButtons submitLabel={actionOf("run").label} disabled={isWrong} onCancel={close} />
      </form>
    </Modal>
  );
}

interface ReplaceProps {
  readonly flow: Flow;
  readonly replaced: readonly string[];
  readonly onReplaced: (ids: readonly string[]) => void;
}

/** A switch for each sink that fails if its output is there. */
function ReplaceFields({ flow, replaced, onReplaced }: ReplaceProps) {
  return flow.modules.filter(canReplace).map(({ id }) => {
    const isOn = replaced.includes(id);
    const others = replaced.filter((one) => one !== id);
    return (
      <label className="switch" key={id}>
        <input
          type="checkbox"
          checked={isOn}
          onChange={() => onReplaced(isOn ? others : [...others, id])}
        />
        Replace output of {id} if it is there, in this run
      </label>
    );
  });
}

function isBlank(text: string): boolean {
  return text.trim() === "";
}

function threadsError(text: string): string | undefined {
  const isCount = /^\s*0*[1-9]\d*\s*$/.test(text);
  return isBlank(text) || isCount ? undefined : "A whole number above 0, or nothing.";
}

function memoryError(text: string): string | undefined {
  const isSize = parseBytes(text) !== undefined;
  return isBlank(text) || isSize ? undefined : "A size like 512MiB or 4GB, or nothing.";
}

interface ValueProps {
  readonly flow: Flow;
  readonly name: string;
  /** Why its value is invalid. */
  readonly fault: string | undefined;
}

function VariableField({ flow, name, fault }: ValueProps) {
  const id = useId();
  const given = useRunSettings(({ variables }) => variables.get(name));
  const { default: defaultValue, doc } = flow.variables.get(name) ?? {};
  const isMissing = missingVariables(flow).includes(name);
  return (
    <div className="field">
      <label htmlFor={id}>
        {name}
        {isMissing && <span className="required"> required</span>}
      </label>
      <ValueField
        id={id}
        value={given ?? defaultValue}
        set={(value) =>
          useRunSettings.setState(({ variables }) => {
            const now = new Map(variables);
            if (value === undefined) now.delete(name);
            else now.set(name, value);
            return { variables: now };
          })
        }
      />
      {fault !== undefined && <p className="wrong-text">{fault}</p>}
      {doc !== undefined && (
        <p className="quiet">
          <InlineMarkdown text={doc} />
        </p>
      )}
    </div>
  );
}
