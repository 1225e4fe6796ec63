// Previews: runs a part of the flow on a sample, shows its rows, and removes the record of the run.

import { create } from "zustand";
import { setOption } from "../../document/configEdits";
import { placeNamed } from "../../document/edits";
import { type Flow, newFlow, newQueue } from "../../document/flow";
import { type Backend, BackendError, type Failure, type RowSample } from "../backend/api";
import { givenVariables, useRunSettings } from "../state/runSettings";
import { refreshRuns, requireBackend } from "../state/serverStore";
import { useStudio } from "../state/studioStore";
import { showDialog } from "../state/viewStore";
import { hasDelimiter, likelyDelimiter } from "./delimiter";
import { type SampleFlow, sampleFlow } from "./sampleFlow";

export interface Preview {
  readonly title: string;
  /** The data file that is shown, if it is one. */
  readonly file: string | undefined;
  /** The delimiter that the file is read with, unless it is that of its extension. */
  readonly delimiter: string | undefined;
  readonly sample: RowSample | undefined;
  readonly failure: Pick<Failure, "message" | "remedy"> | undefined;
  /** A value that could not be read; it is shown as a null. */
  readonly unread: Preview["failure"];
}

export const usePreview = create<Preview>(() => ({
  title: "",
  file: undefined,
  delimiter: undefined,
  sample: undefined,
  failure: undefined,
  unread: undefined,
}));

const POLL_MS = 120;
/** How long a preview may take; a source may be slow, or a sort may wait for its input. */
const PREVIEW_MS_MAX = 60_000;

/** Previews the rows of a queue of the current flow. */
export async function previewQueue(number: number): Promise<void> {
  const { history, specs } = useStudio.getState();
  const { from, to } = history.now.queues[number] ?? { from: "", to: "" };
  await show({ title: `Rows from ${from} to ${to}` }, sampleFlow(history.now, specs, number));
}

/** Previews a data file; one that seems to have another delimiter is read again with that. */
export async function previewFile(path: string, delimiter?: string): Promise<void> {
  const { specs } = useStudio.getState();
  const placed = placeNamed(newFlow(path), specs, "scan", { x: 0, y: 0 });
  const read = setOption(placed.flow, placed.id, "path", path);
  const split = delimiter ? setOption(read, placed.id, "delimiter", delimiter) : read;
  const flow = { ...split, queues: [newQueue(placed.id, "")] };
  const tolerant = isText(path) ? setOption(flow, placed.id, "on_error", "null") : undefined;
  const isShown = await show(
    { title: path, file: path, delimiter },
    sampleFlow(flow, specs, 0),
    tolerant && sampleFlow(tolerant, specs, 0),
  );
  if (!isShown || delimiter !== undefined || !hasDelimiter(path)) return;
  const columns = usePreview.getState().sample?.schema.map(({ name }) => name);
  const likely = likelyDelimiter(columns ?? []);
  if (likely !== undefined) await previewFile(path, likely);
}

/** Whether a file is read as text, where a value may not fit the type of its column. */
function isText(path: string): boolean {
  return /\.([ct]sv|jsonl?|ndjson)(\.\w+)?$/i.test(path);
}

/** The number of the preview shown last: others are obsolete. */
let latest = 0;

/** Shows the sample, or else that of `tolerant`; tells whether it is still what is shown. */
async function show(
  { title, file, delimiter }: { title: string; file?: string; delimiter?: string | undefined },
  sampled: SampleFlow | undefined,
  tolerant?: SampleFlow,
): Promise<boolean> {
  if (sampled === undefined) return false;
  latest += 1;
  const number = latest;
  const before = { sample: undefined, failure: undefined, unread: undefined };
  usePreview.setState({ title, file, delimiter, ...before });
  showDialog("preview");
  const isObsolete = () => number !== latest;
  const outcome = await runSample(sampled.flow, sampled.collector, { isObsolete });
  if (isObsolete()) return false;
  const { failure } = outcome;
  if (failure !== undefined && tolerant !== undefined) {
    const { sample } = await runSample(tolerant.flow, tolerant.collector, { isObsolete });
    if (isObsolete()) return false;
    usePreview.setState(sample === undefined ? outcome : { sample, unread: failure });
    return true;
  }
  usePreview.setState(outcome);
  return true;
}

/** Ends the preview that is shown. */
export function closePreview(): void {
  latest += 1;
  showDialog(undefined);
}

type Outcome = Partial<Preview>;

interface SampleOptions {
  /** Where it runs; by default where the flow does. */
  readonly cluster?: string;
  readonly isObsolete?: () => boolean;
}

/** Runs a flow that collects a sample, and removes the record of the run. */
export async function runSample(
  flow: Flow,
  collector: string,
  { cluster: chosen, isObsolete = () => false }: SampleOptions = {},
): Promise<Outcome> {
  try {
    const backend = requireBackend();
    const settings = useRunSettings.getState();
    const { threads, memory } = settings;
    const cluster = chosen ?? settings.cluster;
    const variables = givenVariables(flow);
    const order = { flow, variables, cluster, threads, memory, perturbations: [] };
    const id = await backend.start(order);
    const ended = await endOf(backend, id, isObsolete);
    await backend.remove(id);
    // The list may have been fetched while the run was there.
    void refreshRuns();
    const { failure, collected } = ended;
    if (failure !== undefined) return { failure };
    const sample = collected?.[collector];
    return sample === undefined ? { failure: { message: "the preview was stopped" } } : { sample };
  } catch (error) {
    if (!(error instanceof BackendError)) throw error;
    const { message, remedy } = error;
    return { failure: remedy === undefined ? { message } : { message, remedy } };
  }
}

/** Waits for the end of a run; stops it when it takes too long or is obsolete. */
async function endOf(backend: Backend, id: string, isObsolete: () => boolean) {
  const deadline = performance.now() + PREVIEW_MS_MAX;
  let isStopping = false;
  for (;;) {
    const run = await backend.run(id);
    if (run.state !== "running") return run;
    if (!isStopping && (isObsolete() || performance.now() > deadline)) {
      isStopping = true;
      await backend.stop(id);
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
