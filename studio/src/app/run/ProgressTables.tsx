// Tables of a run's progress, by module and by instance. All figures come from the engine.

import { Fragment } from "react";
import type { InstanceProgress, ModuleProgress } from "../backend/api";
import { useLive } from "../state/liveStore";
import { revealModules, useStudio } from "../state/studioStore";
import { formatBytes, formatCount, formatFactor, formatPercent } from "../ui/format";
import { TimeBar } from "../ui/TimeBar";

/** Rows of the module table; larger flows show the selected modules. */
const MODULES_MAX = 30;

export function ModuleProgressTable() {
  const progress = useLive(({ tableProgress: progress }) => progress);
  const selected = useStudio(({ selectedModules }) => selectedModules);
  if (progress === undefined) return <p className="quiet">No progress yet.</p>;
  const { modules } = progress;
  const isLarge = modules.length > MODULES_MAX;
  const wanted =
    isLarge && selected.size > 0 ? modules.filter(({ id }) => selected.has(id)) : modules;
  const shown = wanted.slice(0, MODULES_MAX);
  return (
    <>
      {isLarge && (
        <p className="quiet">
          {shown.length} of {modules.length}: select modules to see those.
        </p>
      )}
      <ModulesTable modules={shown} />
    </>
  );
}

function ModulesTable({ modules }: { readonly modules: readonly ModuleProgress[] }) {
  return (
    <table className="table">
      <thead>
        <tr>
          <th>module</th>
          <th className="number">×</th>
          <th>now</th>
          <th>busy, starved, blocked</th>
          <th className="number">rows in</th>
          <th className="number">rows out</th>
          <th className="number">rows/s</th>
          <th className="number">bytes/s</th>
        </tr>
      </thead>
      <tbody>
        {modules.map((module) => (
          <ModuleRow key={module.id} module={module} />
        ))}
      </tbody>
    </table>
  );
}

function ModuleRow({ module }: { readonly module: ModuleProgress }) {
  const { id, count, state, rows_in, rows_out, rows_per_second, bytes_per_second } = module;
  return (
    <tr>
      <th scope="row">
        <button type="button" className="link" onClick={() => revealModules(new Set([id]))}>
          {id}
        </button>
      </th>
      <td className="number">{count}</td>
      <td>{state}</td>
      <td>
        <TimeShares {...module} />
      </td>
      <td className="number">{formatCount(rows_in)}</td>
      <td className="number">{formatCount(rows_out)}</td>
      <td className="number">{formatCount(rows_per_second)}</td>
      <td className="number">{formatBytes(bytes_per_second)}</td>
    </tr>
  );
}

/** Time shares as a bar and as text. */
export function TimeShares({
  busy,
  starved,
  blocked,
}: {
  busy: number;
  starved: number;
  blocked: number;
}) {
  const [b, s, f] = [busy, starved, blocked].map((part) => Math.round(part * 100));
  return (
    <span className="times">
      <TimeBar busy={b ?? 0} starved={s ?? 0} blocked={f ?? 0} />
      <span className="number">
        {formatPercent(busy)}, {formatPercent(starved)}, {formatPercent(blocked)}
      </span>
    </span>
  );
}

/** Rows of the instance table. */
const INSTANCES_MAX = 500;

/** Instances grouped by worker; of the selected modules only, if any are. */
export function InstanceProgressTable() {
  const progress = useLive(({ tableProgress: progress }) => progress);
  const selected = useStudio(({ selectedModules }) => selectedModules);
  if (progress === undefined) return <p className="quiet">No progress yet.</p>;
  const wanted = progress.modules.filter(({ id }) => selected.size === 0 || selected.has(id));
  const instances = wanted.flatMap(({ instances }) => instances);
  const workers = new Map<string, InstanceProgress[]>();
  for (const instance of instances.slice(0, INSTANCES_MAX)) {
    const known = workers.get(instance.worker);
    if (known === undefined) workers.set(instance.worker, [instance]);
    else known.push(instance);
  }
  return (
    <>
      <p className="quiet">
        {selected.size === 0
          ? "Of all modules; of the selected ones, if some are."
          : `Of ${[...selected].join(", ")}.`}
        {instances.length > INSTANCES_MAX && ` The first ${INSTANCES_MAX} of ${instances.length}.`}
      </p>
      <table className="table">
        <thead>
          <tr>
            <th>instance</th>
            <th>busy, starved, blocked</th>
            <th className="number">bytes/s</th>
            <th>beside its peers</th>
          </tr>
        </thead>
        <tbody>
          {[...workers].map(([worker, its]) => (
            <Fragment key={worker}>
              <tr className="worker">
                <th scope="rowgroup" colSpan={4}>
                  {worker === "" ? "this process" : worker}
                  <span className="quiet"> · {its.length} instances</span>
                </th>
              </tr>
              {its.map((instance) => (
                <InstanceRow key={instance.name} instance={instance} />
              ))}
            </Fragment>
          ))}
        </tbody>
      </table>
    </>
  );
}

function InstanceRow({ instance }: { readonly instance: InstanceProgress }) {
  const { name, bytes_per_second, slow } = instance;
  const isSlow = slow !== undefined;
  return (
    <tr data-slow={isSlow}>
      <th scope="row">{name}</th>
      <td>
        <TimeShares {...instance} />
      </td>
      <td className="number">{formatBytes(bytes_per_second)}</td>
      <td>
        {isSlow && (
          <>
            <span className="badge slow">slow</span> {formatFactor(slow)}
          </>
        )}
      </td>
    </tr>
  );
}
