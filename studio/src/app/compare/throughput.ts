// The throughput of a run over time, for charts: bytes per second of all modules or of one.

import type { History } from "../backend/api";

export interface ThroughputPoint {
  readonly seconds: number;
  readonly bytesPerSecond: number;
}

/** The sum over the instances of a module; of all instances if no module is given. */
export function throughput(
  history: History | undefined,
  module: string | undefined,
): readonly ThroughputPoint[] {
  if (history === undefined) return [];
  const chosen = history.series.filter((one) => module === undefined || one.module === module);
  if (chosen.length === 0) return [];
  return history.seconds.map((seconds, i) => ({
    seconds,
    bytesPerSecond: chosen.reduce((sum, one) => sum + (one.bytes_per_second[i] ?? 0), 0),
  }));
}

/** The smallest of 1, 2 and 5 times a power of ten that is at least a value. */
export function roundUp(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5].find((digit) => digit * power >= value) ?? 10) * power;
}
