// The report of a finished run: durations against ideal and static division, slow components,
// modules.

import type { Report, Slow } from "../backend/api";
import { useLive } from "../state/liveStore";
import { bytesText, countText, factorText, percentText, secondsText } from "../ui/format";
import { Times } from "./ProgressTables";

export function ReportPage() {
  const report = useLive(({ run }) => run?.report);
  if (report === undefined) return <p className="quiet">There is none: it did not end well.</p>;
  const { bottleneck, slow, losses = [] } = report;
  return (
    <div className="report">
      <Seconds report={report} />
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
                <Times {...module} />
              </td>
              <td className="number">{countText(module.rows_out)}</td>
              <td className="number">{bytesText(module.bytes_out)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Static division up to this multiple of the run's duration counts as about the same. */
const EQUAL_MAX = 1.03;

/** The run's, the ideal and the static division's duration, as bars of one scale. */
function Seconds({ report }: { readonly report: Report }) {
  const { seconds, ideal_seconds, fraction_of_ideal, ideal_bound, divided_seconds } = report;
  const reached = fraction_of_ideal === null ? "" : `, ${percentText(fraction_of_ideal)} reached`;
  const bound = ideal_bound === null ? "" : ` with ${ideal_bound} at the rate it had${reached}`;
  const isEqual = divided_seconds !== null && divided_seconds <= seconds * EQUAL_MAX;
  const limit = ideal_bound === null ? "something else" : ideal_bound;
  const isLimited = report.slow.length > 0;
  const why = isLimited ? `${limit}, not the slow one, was the limit` : "none was slow";
  const divided = isEqual ? ` about the same: ${why}` : " with equal shares in advance";
  const lines = [
    { name: "this run", value: seconds, told: "" },
    { name: "ideal", value: ideal_seconds, told: bound },
    { name: "static division", value: divided_seconds, told: divided },
  ];
  const longest = Math.max(...lines.map(({ value }) => value ?? 0));
  return (
    <table className="seconds">
      <caption className="quiet">What a static division would have cost</caption>
      <tbody>
        {lines.map(({ name, value, told }) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td className="number">{value === null ? "—" : secondsText(value)}</td>
            <td>
              {value !== null && (
                <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
                  <rect width={(value / longest) * 100} height={8} />
                </svg>
              )}
            </td>
            <td className="quiet">{value === null ? "too short to tell" : told}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function slowText(slow: Slow): string {
  const { name, from_seconds, to_seconds, factor, than_before, share_moved, share_equal } = slow;
  const when = `from ${secondsText(from_seconds)} to ${secondsText(to_seconds)}`;
  const beside = than_before ? "than before" : "beside its peers";
  const how = factor === null ? "stood still" : `took ${factorText(factor)} as long ${beside}`;
  const moved =
    share_moved === null || share_equal === null
      ? ""
      : `; it moved ${percentText(share_moved)} of the work instead of ${percentText(share_equal)}`;
  return `${name} ${how}, ${when}${moved}`;
}
