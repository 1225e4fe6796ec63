// Sampled rows of the selected queue, or rows collected by a module. All cells are shown as text.

import { useCallback, useEffect, useState } from "react";
import { BackendError, type RowSample } from "../backend/api";
import { useLive } from "../state/liveStore";
import { useRoute } from "../state/routeStore";
import { requireBackend } from "../state/serverStore";
import { useStudio } from "../state/studioStore";
import { pluralize } from "../ui/format";
import { ProblemText } from "../ui/ProblemText";
import { RowTable } from "./RowTable";
import { selectedQueueInRun } from "./runControl";

export function QueueRows() {
  const number = useQueuePosition();
  const collected = useCollected();
  if (number !== undefined) return <SampledRows number={number} />;
  if (collected === undefined) {
    return <p className="quiet">Select a queue to see rows that go through it.</p>;
  }
  const [module, sample] = collected;
  return (
    <>
      <p className="quiet">
        {sample.rows.length === 0
          ? `No rows came to ${module}.`
          : `The last ${pluralize(sample.rows.length, "row")} that ${module} has kept.`}
      </p>
      <RowTable sample={sample} />
    </>
  );
}

/** Poll interval until there are rows: the engine samples from the first request on. */
const RETRY_MS = 1_000;

function SampledRows({ number }: { readonly number: number }) {
  const run = useLive(({ run }) => run?.id);
  const isRunning = useLive(({ run }) => run?.state === "running");
  const [sample, setSample] = useState<RowSample | BackendError>();
  const fetchRows = useCallback(async () => {
    if (run === undefined) return;
    try {
      setSample(await requireBackend().rows(run, number));
    } catch (error) {
      if (!(error instanceof BackendError)) throw error;
      setSample(error);
    }
  }, [run, number]);
  useEffect(() => {
    setSample(undefined);
    void fetchRows();
  }, [fetchRows]);
  const isEmpty = sample !== undefined && "rows" in sample && sample.rows.length === 0;
  useEffect(() => {
    if (!isEmpty || !isRunning) return;
    const timer = setInterval(() => void fetchRows(), RETRY_MS);
    return () => clearInterval(timer);
  }, [isEmpty, isRunning, fetchRows]);
  if (sample === undefined) return <p className="quiet">Loading…</p>;
  if (sample instanceof BackendError) return <MissingRows error={sample} />;
  return (
    <>
      <p className="row quiet">
        {rowsNote(sample.rows.length, isRunning)}{" "}
        <button type="button" className="small" onClick={() => void fetchRows()}>
          Refresh
        </button>
      </p>
      <RowTable sample={sample} />
    </>
  );
}

function rowsNote(rows: number, isRunning: boolean): string {
  if (rows > 0) return `The latest ${pluralize(rows, "row")}.`;
  return isRunning ? "No rows have come yet." : "No rows came while it was shown.";
}

/** Why there are no rows. That none were sampled is no error. */
function MissingRows({ error }: { readonly error: BackendError }) {
  if (error.status !== 404) {
    return (
      <p className="wrong-text">
        <ProblemText problem={error} />
      </p>
    );
  }
  return (
    <p className="quiet">
      No rows of this queue were kept: a run keeps them from when this tab shows the queue. Run the
      flow again, or take Preview rows in the form of the queue.
    </p>
  );
}

/** The position, in the run's flow, of the selected queue or else the route's. */
function useQueuePosition(): number | undefined {
  const linked = useRoute(({ queue }) => queue);
  const selected = useStudio(selectedQueueInRun);
  return selected ?? linked;
}

/** The rows collected by the selected module, or else by the first that has some. */
function useCollected(): readonly [string, RowSample] | undefined {
  const collected = useLive(({ run }) => run?.collected);
  const selected = useStudio(({ selectedModules }) => selectedModules);
  const found = Object.entries(collected ?? {});
  return found.find(([id]) => selected.has(id)) ?? found[0];
}
