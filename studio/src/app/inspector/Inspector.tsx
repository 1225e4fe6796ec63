// The inspector: forms for the selected module, the selected queue, or the flow.

import { useState } from "react";
import { bytesOf, sizeText } from "../../document/byteSize";
import { whyNot } from "../../document/check";
import { isTold, type OwnSpec, ownOf, plainOptions, specFor } from "../../document/customModules";
import {
  attach,
  changeQueue,
  detach,
  queueBetween,
  rename,
  setInstances,
  setName,
} from "../../document/edits";
import {
  type Flow,
  type Module,
  moduleOf,
  QUEUE_KINDS,
  type Queue,
  type QueueKind,
} from "../../document/flow";
import { told } from "../../document/problem";
import { optionsOf, requiredOf, type Spec } from "../../document/specs";
import type { CheckedQueue, Column } from "../backend/api";
import { actionOf, addInto } from "../shell/actions";
import { endKey, feedOf } from "../state/queueKeys";
import { edit, seek, settle, useStudio } from "../state/studioStore";
import { ofThese } from "../ui/format";
import { Words } from "../ui/InlineMarkdown";
import { NameField } from "../ui/NameField";
import { useDraft } from "../ui/useDraftInput";
import { Option, type Said, useSaid } from "./OptionField";
import { Variables } from "./VariableList";

export function Inspector() {
  const { history, modules, queues } = useStudio();
  const flow = history.now;
  const [id] = modules;
  const [number] = queues;
  const module = modules.size === 1 && id !== undefined ? moduleOf(flow, id) : undefined;
  const queue = number === undefined ? undefined : flow.queues[number];
  return (
    <aside className="inspector" aria-label="What is selected">
      {module !== undefined && <ModuleForm key={module.id} module={module} />}
      {module === undefined && queue !== undefined && (
        <QueueForm key={number} queue={queue} number={number ?? 0} />
      )}
      {module === undefined && queue === undefined && <FlowForm flow={flow} count={modules.size} />}
    </aside>
  );
}

function FlowForm({ flow, count }: { readonly flow: Flow; readonly count: number }) {
  const draft = useDraft(flow.name, (name) =>
    edit("name the flow", (flow) => setName(flow, name), "name"),
  );
  return (
    <>
      {count > 1 && <p>{count} modules are selected.</p>}
      <div className="field">
        <label htmlFor="name">The flow</label>
        <input id="name" {...draft} />
        <p className="quiet">
          {ofThese(flow.modules.length, "module")}, {ofThese(flow.queues.length, "queue")}
        </p>
      </div>
      <Variables flow={flow} />
    </>
  );
}

function ModuleForm({ module }: { readonly module: Module }) {
  const { specs, history } = useStudio();
  const spec = specs.get(module.module);
  const own = ownOf(specs, module);
  const shown = own ?? spec;
  const options = optionsOf(spec);
  const required = spec === undefined ? [] : requiredOf(spec);
  const others = [...module.config].filter(([name]) => !options.has(name));
  return (
    <>
      <h2>{own?.own.title ?? module.module}</h2>
      <p>
        <Words
          text={shown?.summary ?? "This version does not know the module; it is kept as it is."}
        />
      </p>
      <Name module={module} />
      {own !== undefined && isTold(own) && <Arguments module={module} own={own} />}
      {plainOptions(own, options.keys()).map((name) => (
        <Option
          key={name}
          module={module}
          name={name}
          schema={options.get(name) ?? {}}
          isRequired={required.includes(name)}
        />
      ))}
      {others.map(([name]) => (
        <Option key={name} module={module} name={name} schema={{}} isRequired={false} />
      ))}
      <Instances module={module} isParallel={isParallel(shown)} />
      <Attach flow={history.now} module={module} />
      {shown !== undefined && shown.detail !== "" && (
        <p className="quiet detail">
          <Words text={shown.detail} />
        </p>
      )}
    </>
  );
}

/** The arguments of a custom module, a field each. */
function Arguments({ module, own }: { readonly module: Module; readonly own: OwnSpec }) {
  const required = requiredOf(own);
  return [...optionsOf(own)].map(([name, schema]) => (
    <Option
      key={`${name} of ${own.name}`}
      module={module}
      name={name}
      schema={schema}
      isRequired={required.includes(name)}
      own={own}
    />
  ));
}

function isParallel(spec: Spec | undefined): boolean {
  return spec === undefined || (spec.parallel && spec.order !== "ordered");
}

function Name({ module }: { readonly module: Module }) {
  return (
    <div className="field">
      <label htmlFor="name">Name</label>
      <NameField
        id="name"
        name={module.id}
        onName={(name) => {
          const isRenamed = edit("rename", (flow) => rename(flow, module.id, name));
          if (isRenamed) seek(new Set([name]));
          return isRenamed;
        }}
      />
    </div>
  );
}

interface InstancesProps {
  readonly module: Module;
  readonly isParallel: boolean;
}

function Instances({ module, isParallel }: InstancesProps) {
  const { id, count, per_worker, workers } = module;
  const kind = per_worker !== undefined ? "per_worker" : "count";
  const set = (kind: "count" | "per_worker", text: string) => {
    if (!isCount(text)) return false;
    const number = text.trim() === "" ? undefined : Number(text);
    edit("set instances", (flow) => setInstances(flow, id, { [kind]: number }), `instances ${id}`);
    return true;
  };
  const draft = useDraft(String(count ?? per_worker ?? ""), (text) => set(kind, text));
  const places = useDraft(workers.join(", "), (text) => {
    const names = text
      .split(",")
      .map((name) => name.trim())
      .filter((name) => name !== "");
    edit("place", (flow) => setInstances(flow, id, { workers: names }), `workers ${id}`);
    return true;
  });
  return (
    <fieldset>
      <legend>Instances</legend>
      {isParallel || count !== undefined || per_worker !== undefined ? (
        <div className="row">
          <input
            {...draft}
            aria-label="How many"
            aria-invalid={!isCount(draft.value)}
            inputMode="numeric"
            placeholder="one a core"
          />
          <select
            aria-label="Counted"
            value={kind}
            onChange={({ target }) => {
              set(
                target.value === "count" ? "count" : "per_worker",
                String(count ?? per_worker ?? 1),
              );
              settle();
            }}
          >
            <option value="count">in all</option>
            <option value="per_worker">at each worker</option>
          </select>
        </div>
      ) : (
        <p className="quiet">One: it needs the whole stream.</p>
      )}
      <label>
        Workers
        <input {...places} placeholder="any; names or labels, with commas" />
      </label>
    </fieldset>
  );
}

/** Whether a text is a whole number or empty. */
function isCount(text: string): boolean {
  return /^\s*[0-9]*\s*$/.test(text);
}

/** Attaches by keyboard: lists all modules, with the reason for those that cannot be attached. */
function Attach({ flow, module }: { readonly flow: Flow; readonly module: Module }) {
  const specs = useStudio(({ specs }) => specs);
  // Computed only while the list is open.
  const [isOpen, setOpen] = useState(false);
  if (specFor(specs, module)?.outputs.length === 0) return null;
  const listed = isOpen ? flow.modules.slice(0, TARGETS_MAX) : [];
  const targets = listed.map((target) => {
    const { id } = target;
    const inputs = specFor(specs, target)?.inputs;
    const ports = typeof inputs === "object" && inputs.length > 1 ? inputs : [undefined];
    return ports.map((port) => {
      const ends = [
        { id: module.id, port: undefined },
        { id, port },
      ] as const;
      const queue = queueBetween(flow, specs, ...ends);
      const problem = whyNot(flow, specs, queue);
      return { queue, problem, label: port === undefined ? id : `${id}, ${port}` };
    });
  });
  const all = targets.flat();
  return (
    <div className="field">
      <label htmlFor="attach">Attach to</label>
      <select
        id="attach"
        value=""
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onChange={({ target }) => {
          const chosen = all[Number(target.value)];
          if (chosen === undefined) return;
          edit(`attach ${module.id}`, (flow) => attach(flow, specs, chosen.queue));
        }}
      >
        <option value="">—</option>
        {all.map(({ label, problem }, i) => (
          <option key={label} value={i} disabled={problem !== undefined}>
            {problem === undefined ? label : `${label}: ${problem.message}`}
          </option>
        ))}
      </select>
    </div>
  );
}

/** Modules listed as attach targets. */
const TARGETS_MAX = 300;

interface QueueFormProps {
  readonly queue: Queue;
  readonly number: number;
}

function QueueForm({ queue, number }: QueueFormProps) {
  const problem = useStudio(({ problems }) => problems.find((found) => found.queue === number));
  const { from, to, output, input, queue: kind, bytes_max } = queue;
  const said = useSaidOf(number);
  const bound = useSaid(bytes_max === undefined ? "" : sizeText(bytes_max), sizeSaid, (value) => {
    const change = { bytes_max: typeof value === "number" ? value : undefined };
    edit("bound the queue", (flow) => changeQueue(flow, number, change), `bytes ${number}`);
  });
  return (
    <>
      <h2>Queue</h2>
      <p>
        {from} {output !== undefined && `(${output}) `}→ {to} {input !== undefined && `(${input})`}
      </p>
      <div className="field">
        <label htmlFor="kind">Who gets a batch</label>
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
        <p className="quiet">{WHO[kind ?? "any"]}</p>
        {said !== undefined && (
          <p className="why">
            It is <strong>{said.kind}</strong>: {said.why}
          </p>
        )}
      </div>
      <div className="field">
        <label htmlFor="bytes">Bytes that wait in it, at most</label>
        <input id="bytes" {...bound} placeholder="8MiB" />
        <p className="quiet">As 64MB or 1.5GiB; a single batch may be larger.</p>
      </div>
      <Between number={number} />
      {said !== undefined && <Columns columns={said.schema} />}
      {problem !== undefined && <p className="wrong-text">{told(problem)}</p>}
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

/** The engine's check of a queue. */
function useSaidOf(number: number): CheckedQueue | undefined {
  const feed = useStudio(({ history, specs }) => feedOf(history.now, specs, number));
  return useStudio(({ checked }) => {
    return checked.queues.find(({ from, output }) => endKey([from, output]) === feed);
  });
}

/** The schema of a queue. */
function Columns({ columns }: { readonly columns: readonly Column[] }) {
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

function sizeSaid(typed: string): Said {
  if (typed.trim() === "") return { value: undefined };
  const value = bytesOf(typed);
  return value === undefined ? undefined : { value };
}

/** Splices a module into the queue, as dropping one on it does. */
function Between({ number }: { readonly number: number }) {
  const { specs, history, places } = useStudio();
  const queue = history.now.queues[number];
  const passing = [...specs.values()].filter(
    ({ inputs, outputs }) => inputs.length > 0 && outputs.length > 0,
  );
  return (
    <div className="field">
      <label htmlFor="between">Put in between</label>
      <select
        id="between"
        value=""
        onChange={({ target }) => {
          const place = places.get(queue?.from ?? "") ?? { x: 0, y: 0 };
          if (target.value !== "") addInto(target.value, number, place);
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

const WHO: Readonly<Record<QueueKind | "any", string>> = {
  any: "Distributed, unless the producer keeps partitions: then whole partitions.",
  distributed: "Any consumer that has time: a slow one takes fewer.",
  pairwise: "Instance i of the producer feeds instance i of the consumer.",
  broadcast: "Every consumer gets every batch.",
  keyed: "Any consumer that has time gets a whole partition.",
};
