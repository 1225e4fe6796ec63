// Tests of connections: a short run that reads a file of a store, or counts on a cluster.

import { placeNamed } from "../../document/edits";
import { type Flow, newFlow, newQueue } from "../../document/flow";
import { type Connection, storageOptions } from "../../document/forms/connections";
import type { Json } from "../../document/json";
import { runSample } from "../preview/preview";
import { sampleFlow } from "../preview/sampleFlow";
import { useStudio } from "../state/studioStore";
import { pluralize } from "../ui/format";

/** The outcome of a test, as text. */
export interface TestOutcome {
  readonly isGood: boolean;
  readonly text: string;
}

/** Reads the beginning of a file of a store; for a cluster, runs a small flow there. */
export async function testConnection(
  connection: Connection,
  address: string,
): Promise<TestOutcome> {
  const isCluster = connection.kind === "cluster";
  const flow = isCluster
    ? sourceFlow("generate", [
        ["what", "integers"],
        ["rows", 10],
      ])
    : sourceFlow("scan", [
        ["path", address],
        ["storage_options", storageOptions(connection)],
      ]);
  const sampled = sampleFlow(flow, useStudio.getState().specs, 0);
  if (sampled === undefined) return { isGood: false, text: "there is nothing to read" };
  const cluster = isCluster ? (connection.values.get("where") ?? "") : "";
  const { sample, failure } = await runSample(sampled.flow, sampled.collector, { cluster });
  if (sample === undefined) {
    const { message = "it was stopped", remedy = "" } = failure ?? {};
    return { isGood: false, text: remedy === "" ? message : `${message}: ${remedy}` };
  }
  const columns = sample.schema.map(({ name }) => name).join(", ");
  const text = isCluster
    ? "A flow ran there."
    : `Read ${pluralize(sample.rows.length, "row")} with the columns ${columns}.`;
  return { isGood: true, text };
}

/** A flow whose only queue leads from a source to nowhere. */
function sourceFlow(module: string, config: readonly (readonly [string, Json])[]): Flow {
  const { specs } = useStudio.getState();
  const { flow, id } = placeNamed(newFlow("connection"), specs, module, { x: 0, y: 0 });
  const modules = flow.modules.map((one) => ({ ...one, config: new Map(config) }));
  return { ...flow, modules, queues: [newQueue(id, "")] };
}
