// Two runs in one chart: bytes per second over time, a solid line for the first run and a dashed
// one for the second.

import { useState } from "react";
import type { Run } from "../backend/api";
import { formatBytes, formatSeconds, formatTime } from "../ui/format";
import { roundUp, throughput } from "./throughput";

/** The chart's size in its own units, with room for the labels of both axes. */
const SIZE = { width: 720, height: 220, left: 78, right: 16, top: 10, bottom: 26 } as const;
const TICKS = [0, 0.25, 0.5, 0.75, 1] as const;
const ORDINALS = ["first", "second"] as const;

export function ThroughputChart({ runs }: { readonly runs: readonly [Run, Run] }) {
  const [module, setModule] = useState("");
  const lines = runs.map(({ history }) => throughput(history, module === "" ? undefined : module));
  const points = lines.flat();
  const names = runs.flatMap(({ history }) => history?.series ?? []).map((one) => one.module);
  const modules = [...new Set(names)].filter((name) => name !== null);
  if (modules.length === 0) {
    return <p className="quiet">No chart: neither run has a record of its throughput.</p>;
  }
  const end = Math.max(...runs.map(({ seconds }) => seconds), ...points.map((p) => p.seconds));
  const [duration, top] = [
    end > 0 ? end : 1,
    roundUp(points.reduce((most, { bytesPerSecond }) => Math.max(most, bytesPerSecond), 0)),
  ];
  const x = (share: number) => SIZE.left + share * (SIZE.width - SIZE.left - SIZE.right);
  const y = (share: number) => SIZE.height - SIZE.bottom - share * (SIZE.height - SIZE.bottom - 10);
  return (
    <figure className="chart">
      <figcaption className="row">
        {runs.map(({ id, started }, i) => (
          <span className="legend" key={id}>
            <svg viewBox="0 0 24 8" aria-hidden="true">
              <path className={`line ${ORDINALS[i]}`} d="M0 4H24" />
            </svg>
            {formatTime(started)}
          </span>
        ))}
        <label>
          Throughput of{" "}
          <select value={module} onChange={({ target }) => setModule(target.value)}>
            <option value="">all modules</option>
            {modules.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      </figcaption>
      <svg viewBox={`0 0 ${SIZE.width} ${SIZE.height}`} role="img">
        <title>Bytes per second over time of both runs</title>
        {TICKS.map((share) => (
          <g key={share}>
            <path className="grid" d={`M${x(0)} ${y(share)}H${x(1)}`} />
            <text x={x(0) - 8} y={y(share) + 4} textAnchor="end">
              {formatBytes(top * share)}/s
            </text>
            <text x={x(share)} y={SIZE.height - 6} textAnchor="middle">
              {formatSeconds(duration * share)}
            </text>
          </g>
        ))}
        {lines.map((line, i) => (
          <polyline
            key={ORDINALS[i]}
            className={`line ${ORDINALS[i]}`}
            points={line
              .map((one) => `${x(one.seconds / duration)},${y(one.bytesPerSecond / top)}`)
              .join(" ")}
          />
        ))}
      </svg>
    </figure>
  );
}
