// Rows that went through the selected queue, as text: whatever stands in a cell is never more.

import { useCallback, useEffect, useState } from "react";
import { BackendError, type Sample } from "./backend/border";
import { feedOf } from "./feeds";
import { useLive } from "./live";
import { useRoute } from "./route";
import { backendNow } from "./server";
import { useStudio } from "./studio";

export function Rows() {
  const run = useLive(({ run }) => run?.id);
  const number = useNumber();
  const [sample, setSample] = useState<Sample | string>();
  const look = useCallback(async () => {
    if (run === undefined || number === undefined) return;
    try {
      setSample(await backendNow().rows(run, number));
    } catch (error) {
      if (!(error instanceof BackendError)) throw error;
      setSample(error.message);
    }
  }, [run, number]);
  useEffect(() => {
    setSample(undefined);
    void look();
  }, [look]);
  if (number === undefined) return <p className="quiet">Select a queue to see rows of it.</p>;
  if (typeof sample === "string") return <p className="wrong-text">{sample}</p>;
  if (sample === undefined) return <p className="quiet">Looking…</p>;
  return (
    <>
      <p className="row quiet">
        {sample.rows.length === 0
          ? "No rows of it are kept."
          : `The latest ${sample.rows.length} rows that were kept.`}
        <button type="button" className="small" onClick={() => void look()}>
          Look again
        </button>
      </p>
      <table className="table rows">
        <thead>
          <tr>
            {sample.schema.map(({ name, type }, i) => (
              <th key={name}>
                {name}
                <span className="quiet">
                  {" "}
                  {type}
                  {(sample.nulls?.[i] ?? 0) > 0 && `, ${sample.nulls?.[i]} nulls`}
                </span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sample.rows.map((row, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows have no name but their place
            <tr key={i}>
              {row.map((cell, column) => (
                <td key={sample.schema[column]?.name ?? column}>
                  {cell ?? <span className="quiet">null</span>}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

/** The run's number of the queue that is selected, or that the address says. */
function useNumber(): number | undefined {
  const linked = useRoute(({ queue }) => queue);
  const feed = useStudio(({ history, specs, queues }) => {
    const [selected] = queues;
    return selected === undefined ? undefined : feedOf(history.now, specs, selected);
  });
  const selected = useLive(({ queues }) => queues.get(feed ?? "")?.number);
  return feed === undefined ? linked : selected;
}
