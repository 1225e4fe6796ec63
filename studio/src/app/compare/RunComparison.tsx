// Compares two runs: settings, durations, modules, and the differences of their flows.

import { useEffect, useState } from "react";
import type { Module } from "../../document/flow";
import { isObject, type Json, printOnOneLine } from "../../document/json";
import { moduleJson } from "../../document/writeDocument";
import { BackendError, type Run } from "../backend/api";
import { formatRoute, navigate, useRoute } from "../state/routeStore";
import { requireBackend, useServer } from "../state/serverStore";
import { formatBytes, formatCount, formatPercent, formatSeconds, formatTime } from "../ui/format";
import { ProblemText } from "../ui/ProblemText";
import { ThroughputChart } from "./ThroughputChart";

export function RunComparison() {
  const { run, other } = useRoute();
  // A page that is opened at the comparison has no server yet.
  const isUp = useServer(({ link }) => link === "up");
  const [runs, setRuns] = useState<readonly [Run, Run]>();
  const [failure, setFailure] = useState<BackendError>();
  useEffect(() => {
    if (run === undefined || other === undefined || !isUp) return;
    let isObsolete = false;
    setRuns(undefined);
    setFailure(undefined);
    const backend = requireBackend();
    void Promise.all([backend.run(run), backend.run(other)]).then(
      (both) => !isObsolete && setRuns(both),
      (error: unknown) => {
        if (!(error instanceof BackendError)) throw error;
        if (!isObsolete) setFailure(error);
      },
    );
    return () => {
      isObsolete = true;
    };
  }, [run, other, isUp]);
  if (other === undefined) return null;
  return (
    <section className="compare" aria-label="Two runs">
      <div className="row">
        <h2>Two runs</h2>
        <button type="button" onClick={() => navigate(run === undefined ? {} : { run })}>
          Close
        </button>
      </div>
      {failure !== undefined && (
        <p className="wrong-text" role="alert">
          <ProblemText problem={failure} />
        </p>
      )}
      {failure === undefined && runs === undefined && <p className="quiet">Loading…</p>}
      {runs !== undefined && <ComparisonTable runs={runs} />}
    </section>
  );
}

function ComparisonTable({ runs }: { readonly runs: readonly [Run, Run] }) {
  const [first, second] = runs;
  const facts: readonly (readonly [string, (run: Run) => string])[] = [
    ["state", ({ state }) => state],
    ["seconds", ({ seconds }) => formatSeconds(seconds)],
    ["cluster", ({ cluster }) => (cluster === "" ? "this process" : cluster)],
    ["variables", ({ variables }) => variablesText(variables)],
    ["ideal", ({ report }) => optionalSeconds(report?.ideal_seconds)],
    ["static division", ({ report }) => optionalSeconds(report?.divided_seconds)],
    ["bottleneck", ({ report }) => report?.bottleneck ?? "—"],
    ["slow", ({ report }) => report?.slow.map(({ name }) => name).join(", ") || "—"],
  ];
  const ids = [...new Set(runs.flatMap(({ flow }) => flow.modules.map(({ id }) => id)))];
  const changes = ids.flatMap((id) => differences(id, first, second));
  return (
    <>
      <ThroughputChart runs={runs} />
      <table className="table">
        <thead>
          <tr>
            <th />
            {runs.map(({ id, name, started }) => (
              <th key={id}>
                <a href={formatRoute({ run: id })}>
                  <bdi>{name}</bdi>, {formatTime(started)}
                </a>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {facts.map(([name, read]) => (
            <tr key={name} data-different={read(first) !== read(second)}>
              <th scope="row">{name}</th>
              <td>{read(first)}</td>
              <td>{read(second)}</td>
            </tr>
          ))}
          {ids.map((id) => (
            <tr key={id} data-different={false}>
              <th scope="row">{id}</th>
              <td>{moduleText(first, id)}</td>
              <td>{moduleText(second, id)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <h3>Differences of the flows</h3>
      {changes.length === 0 && <p className="quiet">Nothing.</p>}
      {changes.map((change) => (
        <p key={change}>{change}</p>
      ))}
    </>
  );
}

function optionalSeconds(seconds: number | null | undefined): string {
  return seconds === null || seconds === undefined ? "—" : formatSeconds(seconds);
}

function variablesText(variables: Run["variables"]): string {
  const given = Object.entries(variables).map(([name, value]) => `${name}=${String(value)}`);
  return given.join(", ") || "—";
}

function moduleText({ report, progress }: Run, id: string): string {
  const found = report?.modules.find((module) => module.id === id);
  const module = found ?? progress?.modules.find((module) => module.id === id);
  if (module === undefined) return "—";
  const { count, busy, rows_out, bytes_out } = module;
  const out = `${formatCount(rows_out)} rows, ${formatBytes(bytes_out)} out`;
  return `×${count}, busy ${formatPercent(busy)}, ${out}`;
}

/** The differences of one module between the two runs' flows, a line each. */
function differences(id: string, first: Run, second: Run): string[] {
  const [a, b] = [first, second].map(({ flow }) => flow.modules.find((one) => one.id === id));
  if (a === undefined || b === undefined) {
    return [`${id}: only in the ${a === undefined ? "second" : "first"}`];
  }
  const [before, after] = [moduleFields(a), moduleFields(b)];
  const names = new Set([...before.keys(), ...after.keys()]);
  return [...names].flatMap((name) => {
    const [old, now] = [before.get(name), after.get(name)].map(valueText);
    return old === now ? [] : [`${id}.${name}: ${old} → ${now}`];
  });
}

function moduleFields(module: Module): Map<string, Json> {
  const json = moduleJson(module);
  const members = new Map(isObject(json) ? json : []);
  members.delete("config");
  return new Map([...members, ...module.config]);
}

function valueText(value: Json | undefined): string {
  return value === undefined ? "nothing" : printOnOneLine(value);
}
