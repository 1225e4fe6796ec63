// What slows a component on purpose, as text: what somebody types, what the engine is told of it,
// and how it is told what is slowed.

import { rateOf } from "../document/size";
import type { Perturbation, Perturbed, Progress } from "./backend/border";
import { factorText, secondsText } from "./numbers";

export const KINDS = ["instance", "module", "worker", "disk", "link"] as const;
export type Kind = (typeof KINDS)[number];

/** What somebody chose and typed. */
export interface Said {
  readonly kind: Kind;
  readonly name: string;
  readonly factor: number;
  readonly rate: string;
  readonly lasts: string;
}

/** Whether it is held to a rate, and not made so many times slower. */
export function isHeld(kind: Kind): boolean {
  return kind === "disk" || kind === "link";
}

/** What is wrong with the rate, if anything is. */
export function rateFault({ kind, rate }: Said): string | undefined {
  const isRate = !isHeld(kind) || rateOf(rate) !== undefined;
  return isRate ? undefined : "a size above 0 a second: 5MB/s";
}

/** What is wrong with the seconds, if anything is; none are to the end. */
export function lastsFault({ lasts }: Said): string | undefined {
  if (lasts.trim() === "") return undefined;
  const seconds = Number(lasts);
  return seconds > 0 && Number.isFinite(seconds) ? undefined : "a number above 0, or nothing";
}

/** In the words of `euphrates perturb --from`. */
export function perturbationOf({ kind, name, factor, rate, lasts }: Said): Perturbation {
  const how: Perturbation = isHeld(kind) ? { rate: rate.trim() } : { share: 1 - 1 / factor };
  const until: Perturbation = lasts.trim() === "" ? {} : { lasts: Number(lasts) };
  return { [kind]: name, ...how, ...until };
}

/** Who there is, as far as the run tells. */
export function knownOf(kind: Kind, progress: Progress | undefined): readonly string[] {
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

export function nameOf(one: Perturbed): string {
  const kind = KINDS.find((kind) => one[kind] !== undefined);
  return kind === undefined ? "memory" : `${kind} ${one[kind]}`;
}

/** `instance work.2: 4.0×, 3.0 s more`. */
export function slowedText(one: Perturbed, now: number): string {
  const { share, pause, rate, memory, after = 0, lasts, every } = one;
  const begins = Number(after) - now;
  const how = [
    rate !== undefined && `at most ${rate}`,
    share !== undefined && factorText(1 / (1 - Number(share))),
    pause === true && "stands still",
    memory !== undefined && `${memory} of memory held`,
    begins > 0 && `in ${secondsText(begins)}`,
    lasts === undefined
      ? "to the end"
      : begins > 0 || every !== undefined
        ? `for ${secondsText(Number(lasts))}`
        : `${secondsText(begins + Number(lasts))} more`,
    every !== undefined && `every ${secondsText(Number(every))}`,
  ];
  return `${nameOf(one)}: ${how.filter((part) => part !== false).join(", ")}`;
}
