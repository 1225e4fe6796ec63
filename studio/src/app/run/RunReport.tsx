// The report of a finished run: durations against ideal and static division, slow components,
// modules.

import type { Report, SlowPeriod } from "../backend/api";
import { useLive } from "../state/liveStore";
import { formatBytes, formatCount, formatFactor, formatPercent, formatSeconds } from "../ui/format";
import { TimeShares } from "./ProgressTables";

export function RunReport() {
  const report = useLive(({ run }) => run?.report);
  if (report === undefined) return <p className="quiet">No report: the run did not succeed.</p>;
  const { bottleneck, slow, losses = [] } = report;
  return (
    <div className="report">
      <DurationTable report={report} />
      {bottleneck !== null && (
        <p>
          <span className="badge bottleneck">bottleneck</span> {bottleneck}, the module that waited
          least for others
        </p>
      )}
      {slow.map((one) => (
        <p key={`${one.name} ${one.from_seconds}`}>
          <span className="badge slow">slow</span> {slowText(one)}
        </p>
      ))}
      {losses.length > 0 && <p>Lost, and done without: {losses.join(", ")}</p>}
      <table className="table">
        <thead>
          <tr>
            <th>module</th>
            <th className="number">×</th>
            <th>busy, starved, blocked</th>
            <th className="number">rows out</th>
            <th className="number">bytes out</th>
          </tr>
        </thead>
        <tbody>
          {report.modules.map((module) => (
            <tr key={module.id}>
              <th scope="row">{module.id}</th>
              <td className="number">{module.count}</td>
              <td>
                <TimeShares {...module} />
              </td>
              <td className="number">{formatCount(module.rows_out)}</td>
              <td className="number">{formatBytes(module.bytes_out)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Static division up to this multiple of the run's duration counts as about the same. */
const EQUAL_RATIO_MAX = 1.03;

/** The run's, the ideal and the static division's duration, as bars of one scale. */
function DurationTable({ report }: { readonly report: Report }) {
  const { seconds, ideal_seconds, fraction_of_ideal, ideal_bound, divided_seconds } = report;
  const reached = fraction_of_ideal === null ? "" : `, ${formatPercent(fraction_of_ideal)} reached`;
  const bound = ideal_bound === null ? "" : ` with ${ideal_bound} at the rate it had${reached}`;
  const isEqual = divided_seconds !== null && divided_seconds <= seconds * EQUAL_RATIO_MAX;
  const limit = ideal_bound === null ? "something else" : ideal_bound;
  const isLimited = report.slow.length > 0;
  const why = isLimited ? `${limit}, not the slow one, was the limit` : "none was slow";
  const divided = isEqual ? ` about the same: ${why}` : " with equal shares in advance";
  const lines = [
    { name: "this run", value: seconds, note: "" },
    { name: "ideal", value: ideal_seconds, note: bound },
    { name: "static division", value: divided_seconds, note: divided },
  ];
  const longest = Math.max(...lines.map(({ value }) => value ?? 0));
  return (
    <table className="seconds">
      <caption className="quiet">Cost of a static division</caption>
      <tbody>
        {lines.map(({ name, value, note }) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td className="number">{value === null ? "—" : formatSeconds(value)}</td>
            <td>
              {value !== null && (
                <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
                  <rect width={(value / longest) * 100} height={8} />
                </svg>
              )}
            </td>
            <td className="quiet">{value === null ? "too short to tell" : note}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function slowText(slow: SlowPeriod): string {
  const { name, from_seconds, to_seconds, factor, than_before, share_moved, share_equal } = slow;
  const when = `from ${formatSeconds(from_seconds)} to ${formatSeconds(to_seconds)}`;
  const baseline = than_before ? "than before" : "beside its peers";
  const how = factor === null ? "stood still" : `took ${formatFactor(factor)} as long ${baseline}`;
  const work = `${name} ${how}, ${when}`;
  if (share_moved === null || share_equal === null) return work;
  const [moved, equal] = [formatPercent(share_moved), formatPercent(share_equal)];
  return `${work}; it moved ${moved} of the work instead of ${equal}`;
}
