// Perturbations as the dialog edits them: validation, the request's form, and texts.

import { parseRate } from "../../document/byteSize";
import type { ActivePerturbation, Perturbation, Progress } from "../backend/api";
import { formatFactor, formatSeconds } from "../ui/format";

export const TARGET_KINDS = ["instance", "module", "worker", "disk", "link"] as const;
export type TargetKind = (typeof TARGET_KINDS)[number];

/** The values of the dialog's fields. */
export interface PerturbationForm {
  readonly kind: TargetKind;
  readonly name: string;
  readonly factor: number;
  readonly rate: string;
  readonly lasts: string;
}

/** Whether the target is limited to a rate instead of slowed by a factor. */
export function isRateLimited(kind: TargetKind): boolean {
  return kind === "disk" || kind === "link";
}

/** Why the rate is invalid. */
export function rateError({ kind, rate }: PerturbationForm): string | undefined {
  const isRate = !isRateLimited(kind) || parseRate(rate) !== undefined;
  return isRate ? undefined : "a size above 0 a second: 5MB/s";
}

/** Why the duration is invalid; an empty one lasts to the end of the run. */
export function durationError({ lasts }: PerturbationForm): string | undefined {
  if (lasts.trim() === "") return undefined;
  const seconds = Number(lasts);
  return seconds > 0 && Number.isFinite(seconds) ? undefined : "a number above 0, or nothing";
}

/** The perturbation in the format of `euphrates perturb --from`. */
export function toPerturbation({
  kind,
  name,
  factor,
  rate,
  lasts,
}: PerturbationForm): Perturbation {
  const how: Perturbation = isRateLimited(kind) ? { rate: rate.trim() } : { share: 1 - 1 / factor };
  const until: Perturbation = lasts.trim() === "" ? {} : { lasts: Number(lasts) };
  return { [kind]: name, ...how, ...until };
}

/** The names of possible targets, as far as progress names them. */
export function targetNames(kind: TargetKind, progress: Progress | undefined): readonly string[] {
  const modules = progress?.modules ?? [];
  const instances = modules.flatMap(({ instances }) => instances);
  if (kind === "module") return modules.map(({ id }) => id);
  if (kind === "instance") return instances.map(({ name }) => name);
  const workers = [...new Set(instances.map(({ worker }) => worker))].filter(Boolean).sort();
  if (kind === "worker") return workers;
  if (kind === "link") {
    return workers.flatMap((a) => workers.filter((b) => b !== a).map((b) => `${a}>${b}`));
  }
  return [];
}

export function perturbationName(one: ActivePerturbation): string {
  const kind = TARGET_KINDS.find((kind) => one[kind] !== undefined);
  return kind === undefined ? "memory" : `${kind} ${one[kind]}`;
}

/** `instance work.2: 4.0×, 3.0 s more`. */
export function perturbationText(one: ActivePerturbation, now: number): string {
  const { share, pause, rate, memory, after = 0, lasts, every } = one;
  const begins = Number(after) - now;
  const how = [
    rate !== undefined && `at most ${rate}`,
    share !== undefined && formatFactor(1 / (1 - Number(share))),
    pause === true && "stands still",
    memory !== undefined && `${memory} of memory held`,
    begins > 0 && `in ${formatSeconds(begins)}`,
    lasts === undefined
      ? "to the end"
      : begins > 0 || every !== undefined
        ? `for ${formatSeconds(Number(lasts))}`
        : `${formatSeconds(begins + Number(lasts))} more`,
    every !== undefined && `every ${formatSeconds(Number(every))}`,
  ];
  return `${perturbationName(one)}: ${how.filter((part) => part !== false).join(", ")}`;
}
