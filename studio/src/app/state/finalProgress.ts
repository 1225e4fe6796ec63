// Turns the report of a finished run into progress, the form that canvas and tables show.

import type { End, Progress, QueueProgress, Report } from "../backend/api";

/** Rates become means over the run; of input and output the larger counts, as in live progress. */
export function inAll(progress: Progress, report: Report): Progress {
  const seconds = Math.max(report.seconds, Number.MIN_VALUE);
  const told = new Map(report.modules.map((module) => [module.id, module]));
  const rates = (rows: number, bytes: number) => ({
    rows_per_second: rows / seconds,
    bytes_per_second: bytes / seconds,
  });
  const modules = progress.modules.map((module) => {
    const all = told.get(module.id);
    if (all === undefined) return module;
    const { rows_in, bytes_in, rows_out, bytes_out } = all;
    const moved = rates(Math.max(rows_in, rows_out), Math.max(bytes_in, bytes_out));
    return { ...module, ...all, ...moved };
  });
  const alone = (side: "from" | "to", [id]: End) =>
    progress.queues.filter((queue) => queue[side][0] === id).length === 1;
  const passed = ({ from, to }: QueueProgress) => {
    const [giver, taker] = [told.get(from[0]), told.get(to[0])];
    if (giver !== undefined && alone("from", from)) return rates(giver.rows_out, giver.bytes_out);
    // A module with several queues reports only their sum.
    if (taker !== undefined && alone("to", to)) return rates(taker.rows_in, taker.bytes_in);
    return {};
  };
  const queues = progress.queues.map((queue) => ({ ...queue, ...passed(queue), waiting_bytes: 0 }));
  const slow = new Map(report.slow.map(({ name, factor }) => [name, { name, factor }]));
  const why = "the module that waited least for others";
  const bottleneck =
    report.bottleneck === null ? null : { name: report.bottleneck, kind: "module" as const, why };
  return { ...progress, modules, queues, slow: [...slow.values()], bottleneck };
}
