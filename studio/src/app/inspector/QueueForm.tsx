// The form of a queue: kind, size, the engine's check of it, and a module to splice in.

import { parseBytes, printBytes } from "../../document/byteSize";
import { changeQueue, detach } from "../../document/edits";
import { QUEUE_KINDS, type Queue, type QueueKind } from "../../document/flow";
import type { CheckedQueue, Column } from "../backend/api";
import { addModuleToQueue } from "../canvas/editCommands";
import { previewQueue } from "../preview/preview";
import { actionOf } from "../shell/actions";
import { portKey, queueKeyAt } from "../state/queueKeys";
import { isReadOnly, useServer } from "../state/serverStore";
import { edit, useStudio } from "../state/studioStore";
import { ProblemText } from "../ui/ProblemText";
import { type Parsed, useParsedInput } from "./ValueControl";

interface QueueFormProps {
  readonly queue: Queue;
  readonly number: number;
}

export function QueueForm({ queue, number }: QueueFormProps) {
  const problem = useStudio(({ problems }) => problems.find((found) => found.queue === number));
  const { from, to, output, input, queue: kind, bytes_max } = queue;
  const checked = useCheckedQueue(number);
  const bound = useParsedInput(
    bytes_max === undefined ? "" : printBytes(bytes_max),
    parseSize,
    (value) => {
      const change = { bytes_max: typeof value === "number" ? value : undefined };
      edit("bound the queue", (flow) => changeQueue(flow, number, change), `bytes ${number}`);
    },
  );
  return (
    <>
      <h2>Queue</h2>
      <p>
        {from} {output !== undefined && `(${output}) `}→ {to} {input !== undefined && `(${input})`}
      </p>
      <div className="field">
        <label htmlFor="kind">Kind</label>
        <select
          id="kind"
          value={kind ?? ""}
          onChange={({ target }) => {
            const chosen = QUEUE_KINDS.find((one) => one === target.value);
            edit("set the queue", (flow) => changeQueue(flow, number, { queue: chosen }));
          }}
        >
          <option value="">as the modules need</option>
          {QUEUE_KINDS.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
        <p className="quiet">{KIND_HELP[kind ?? "any"]}</p>
        {checked !== undefined && (
          <p className="why">
            It is <strong>{checked.kind}</strong>: {checked.why}
          </p>
        )}
      </div>
      <div className="field">
        <label htmlFor="bytes">Buffer size</label>
        <input id="bytes" {...bound} placeholder="8MiB" />
        <p className="quiet">As 64MB or 1.5GiB; a single batch may be larger.</p>
      </div>
      <PreviewButton number={number} />
      <SpliceSelect number={number} />
      {checked !== undefined && <SchemaTable columns={checked.schema} />}
      {problem !== undefined && (
        <p className="wrong-text">
          <ProblemText problem={problem} />
        </p>
      )}
      <button
        type="button"
        onClick={() => edit("detach", (flow) => detach(flow, new Set([number])))}
        title={actionOf("delete").help}
      >
        Remove the queue
      </button>
    </>
  );
}

/** Runs what leads to the queue, on a sample. */
function PreviewButton({ number }: { readonly number: number }) {
  const mayRun = useServer((server) => server.link === "up" && !isReadOnly(server));
  if (!mayRun) return null;
  return (
    <button
      type="button"
      onClick={() => void previewQueue(number)}
      title="Run what leads here, on the first rows of each source"
    >
      Preview rows
    </button>
  );
}

/** The engine's check of a queue. */
function useCheckedQueue(number: number): CheckedQueue | undefined {
  const key = useStudio(({ history, specs }) => queueKeyAt(history.now, specs, number));
  return useStudio(({ engineCheck }) => {
    return engineCheck.queues.find(({ from, output }) => portKey([from, output]) === key);
  });
}

/** The schema of a queue. */
function SchemaTable({ columns }: { readonly columns: readonly Column[] }) {
  return (
    <table className="table">
      <caption>Its columns</caption>
      <tbody>
        {columns.map(({ name, type, nullable }, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: column names need not be unique
          <tr key={`${at} ${name}`}>
            <th scope="row">{name}</th>
            <td>{type}</td>
            <td className="quiet">{nullable === true ? "may be null" : ""}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function parseSize(typed: string): Parsed {
  if (typed.trim() === "") return { value: undefined };
  const value = parseBytes(typed);
  return value === undefined ? undefined : { value };
}

/** Splices a module into the queue, as dropping one on it does. */
function SpliceSelect({ number }: { readonly number: number }) {
  const { specs, history, positions } = useStudio();
  const queue = history.now.queues[number];
  const passing = [...specs.values()].filter(
    ({ inputs, outputs }) => inputs.length > 0 && outputs.length > 0,
  );
  return (
    <div className="field">
      <label htmlFor="between">Insert module</label>
      <select
        id="between"
        value=""
        onChange={({ target }) => {
          const place = positions.get(queue?.from ?? "") ?? { x: 0, y: 0 };
          if (target.value !== "") addModuleToQueue(target.value, number, place);
        }}
      >
        <option value="">—</option>
        {passing.map(({ name }) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </div>
  );
}

const KIND_HELP: Readonly<Record<QueueKind | "any", string>> = {
  any: "Distributed, unless the producer keeps partitions: then whole partitions.",
  distributed: "Any consumer that has time: a slow one takes fewer.",
  pairwise: "Instance i of the producer feeds instance i of the consumer.",
  broadcast: "Every consumer gets every batch.",
  keyed: "Any consumer that has time gets a whole partition.",
};
