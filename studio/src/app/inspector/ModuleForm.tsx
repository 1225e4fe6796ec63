// The form of a module: name, options or arguments, instances, workers, and where to attach it.

import { Fragment, useState } from "react";
import { attachProblem } from "../../document/check";
import { scriptReference } from "../../document/code/pythonFile";
import {
  type CustomSpec,
  customSpecOf,
  hasNamedArguments,
  plainOptions,
  specFor,
} from "../../document/customModules";
import { attach, queueBetween, rename, setInstances } from "../../document/edits";
import type { Flow, Module } from "../../document/flow";
import { optionsOf, requiredOf, type Spec } from "../../document/specs";
import { ConnectionSelect, STORAGE_OPTION } from "../connections/ConnectionSelect";
import { openScript } from "../script/script";
import { useServer } from "../state/serverStore";
import { edit, endStep, revealModules, useStudio } from "../state/studioStore";
import { InlineMarkdown } from "../ui/InlineMarkdown";
import { NameField } from "../ui/NameField";
import { useDraftInput } from "../ui/useDraftInput";
import { OptionField } from "./OptionField";

export function ModuleForm({ module }: { readonly module: Module }) {
  const { specs, history } = useStudio();
  const spec = specs.get(module.module);
  const own = customSpecOf(specs, module);
  const shown = own ?? spec;
  const options = optionsOf(spec);
  const required = spec === undefined ? [] : requiredOf(spec);
  const others = [...module.config].filter(([name]) => !options.has(name));
  return (
    <>
      <h2>{own?.own.title ?? module.module}</h2>
      <p>
        <InlineMarkdown
          text={shown?.summary ?? "This version does not know the module; it is kept as it is."}
        />
      </p>
      <ModuleName module={module} />
      <ScriptButton module={module} />
      {own !== undefined && hasNamedArguments(own) && <ArgumentFields module={module} own={own} />}
      {plainOptions(own, options.keys()).map((name) => (
        <Fragment key={name}>
          <OptionField
            module={module}
            name={name}
            schema={options.get(name) ?? {}}
            isRequired={required.includes(name)}
          />
          {name === "path" && options.has(STORAGE_OPTION) && <ConnectionSelect module={module} />}
        </Fragment>
      ))}
      {others.map(([name]) => (
        <OptionField key={name} module={module} name={name} schema={{}} isRequired={false} />
      ))}
      <InstancesField module={module} isParallel={isParallel(shown)} />
      <AttachSelect flow={history.now} module={module} />
      {shown !== undefined && shown.detail !== "" && (
        <p className="quiet detail">
          <InlineMarkdown text={shown.detail} />
        </p>
      )}
    </>
  );
}

/** Opens the Python code that the module runs, if it is in a script of the project. */
function ScriptButton({ module }: { readonly module: Module }) {
  const isUp = useServer(({ link }) => link === "up");
  const reference = scriptReference(module);
  if (!isUp || reference === undefined) return null;
  return (
    <button type="button" onClick={() => void openScript(reference)}>
      Edit the code of {reference.name}
    </button>
  );
}

/** The arguments of a custom module, a field each. */
function ArgumentFields({ module, own }: { readonly module: Module; readonly own: CustomSpec }) {
  const required = requiredOf(own);
  return [...optionsOf(own)].map(([name, schema]) => (
    <OptionField
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

function ModuleName({ module }: { readonly module: Module }) {
  return (
    <div className="field">
      <label htmlFor="name">Name</label>
      <NameField
        id="name"
        name={module.id}
        onName={(name) => {
          const isRenamed = edit("rename", (flow) => rename(flow, module.id, name));
          if (isRenamed) revealModules(new Set([name]));
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

function InstancesField({ module, isParallel }: InstancesProps) {
  const { id, count, per_worker, workers } = module;
  const kind = per_worker !== undefined ? "per_worker" : "count";
  const set = (kind: "count" | "per_worker", text: string) => {
    if (!isCount(text)) return false;
    const number = text.trim() === "" ? undefined : Number(text);
    edit("set instances", (flow) => setInstances(flow, id, { [kind]: number }), `instances ${id}`);
    return true;
  };
  const draft = useDraftInput(String(count ?? per_worker ?? ""), (text) => set(kind, text));
  const places = useDraftInput(workers.join(", "), (text) => {
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
            aria-label="Instances"
            aria-invalid={!isCount(draft.value)}
            inputMode="numeric"
            placeholder="one per core"
          />
          <select
            aria-label="Counted"
            value={kind}
            onChange={({ target }) => {
              set(
                target.value === "count" ? "count" : "per_worker",
                String(count ?? per_worker ?? 1),
              );
              endStep();
            }}
          >
            <option value="count">in total</option>
            <option value="per_worker">per worker</option>
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
function AttachSelect({ flow, module }: { readonly flow: Flow; readonly module: Module }) {
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
      const problem = attachProblem(flow, specs, queue);
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
