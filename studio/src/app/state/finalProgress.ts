// Turns the report of a finished run into progress, the form that canvas and tables show.

import type { PortRef, Progress, QueueProgress, Report } from "../backend/api";

/** Rates become means over the run; of input and output the larger counts, as in live progress. */
export function finalProgress(progress: Progress, report: Report): Progress {
  const seconds = Math.max(report.seconds, Number.MIN_VALUE);
  const reports = new Map(report.modules.map((module) => [module.id, module]));
  const rates = (rows: number, bytes: number) => ({
    rows_per_second: rows / seconds,
    bytes_per_second: bytes / seconds,
  });
  const modules = progress.modules.map((module) => {
    const all = reports.get(module.id);
    if (all === undefined) return module;
    const { rows_in, bytes_in, rows_out, bytes_out } = all;
    const moved = rates(Math.max(rows_in, rows_out), Math.max(bytes_in, bytes_out));
    return { ...module, ...all, ...moved };
  });
  const isOnlyQueue = (side: "from" | "to", [id]: PortRef) =>
    progress.queues.filter((queue) => queue[side][0] === id).length === 1;
  const queueRates = ({ from, to }: QueueProgress) => {
    const [producer, consumer] = [reports.get(from[0]), reports.get(to[0])];
    if (producer !== undefined && isOnlyQueue("from", from))
      return rates(producer.rows_out, producer.bytes_out);
    // A module with several queues reports only their sum.
    if (consumer !== undefined && isOnlyQueue("to", to))
      return rates(consumer.rows_in, consumer.bytes_in);
    return {};
  };
  const queues = progress.queues.map((queue) => ({
    ...queue,
    ...queueRates(queue),
    waiting_bytes: 0,
  }));
  const slow = new Map(report.slow.map(({ name, factor }) => [name, { name, factor }]));
  const why = "the module that waited least for others";
  const bottleneck =
    report.bottleneck === null ? null : { name: report.bottleneck, kind: "module" as const, why };
  return { ...progress, modules, queues, slow: [...slow.values()], bottleneck };
}
