// The list of runs, latest first. Each has a URL of its own; two can be picked for comparison.

import { useState } from "react";
import type { RunEntry } from "../backend/api";
import { formatRoute, useRoute } from "../state/routeStore";
import { useServer } from "../state/serverStore";
import { formatSeconds, formatTime } from "../ui/format";
import { RunStateIcon } from "./RunStateIcon";

export function RunList() {
  const runs = useServer(({ runs }) => runs);
  const shown = useRoute(({ run }) => run);
  const [picked, setPicked] = useState<readonly string[]>([]);
  const [first, second] = picked;
  const latest = [...runs].sort((a, b) => b.started - a.started);
  const pick = (id: string) => {
    const others = picked.filter((one) => one !== id);
    setPicked(others.length < picked.length ? others : [...others.slice(-1), id]);
  };
  return (
    <div className="palette-list">
      <div className="runs-picked">
        {first !== undefined && second !== undefined && (
          <a className="button" href={formatRoute({ run: first, other: second })}>
            Compare the two
          </a>
        )}
        {picked.length === 1 && <p className="quiet">Choose one more to compare the two.</p>}
      </div>
      {latest.map((run) => (
        <div className="run-entry" key={run.id} aria-current={run.id === shown}>
          <a href={formatRoute({ run: run.id })} title={`run ${run.id}`}>
            <span className="entry-name">
              <RunStateIcon state={run.state} /> <bdi>{run.name}</bdi>
            </span>
            <span className="entry-summary">{summary(run)}</span>
          </a>
          <input
            type="checkbox"
            aria-label={`Compare run ${run.id}`}
            title="Choose two to compare them"
            checked={picked.includes(run.id)}
            onChange={() => pick(run.id)}
          />
        </div>
      ))}
      {runs.length === 0 && <p className="quiet">No runs yet.</p>}
    </div>
  );
}

function summary({ state, started, seconds, cluster, variables }: RunEntry): string {
  const given = Object.entries(variables).map(([name, value]) => `${name}=${String(value)}`);
  const length = state === "running" ? "" : formatSeconds(seconds);
  return [formatTime(started), length, cluster, ...given].filter((part) => part !== "").join(" · ");
}
