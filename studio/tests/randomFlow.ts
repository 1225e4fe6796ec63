// Random hostile flows, like those of python/tests/flows/test_code.py. A failure names the
// seed of its case: `STUDIO_SEED=… npm test` starts with that case.

import {
  EMPTY_OBJECT,
  type Flow,
  type Module,
  NO_STRAYS,
  newFlow,
  type Port,
  QUEUE_KINDS,
  type Queue,
  type Variable,
} from "../src/document/flow";
import type { Json } from "../src/document/json";
import { floatOf, wholeOf } from "../src/document/numeral";
import { sortByName } from "../src/document/openDocument";
import { BUILT_IN, optionsOf } from "../src/document/specs";

const HOSTILE = [
  '"); import os #',
  "'); import os #",
  "\"\"\"\n'''",
  "a\nimport os",
  "\u202e\u2066\u200f\u2028\x85\x00\x7f",
  "\\",
  "\\\\x",
  "{x}",
  "$" + "{y}",
  "print",
  "eu",
  "flow",
  "import",
  "None",
  "module_1",
  "scan_1",
  "é\u{1f600}\u{e0041}",
  "#",
  "",
  "__name__",
  "__proto__",
  "constructor",
  "1",
  "$var",
  "\r\n",
  "</script><script>alert(1)</script>",
  'r#"x"#',
  "\\N{DASH}",
];
const CHARACTERS = [..."abz019 _-\"'\\\n\t\r{}[]()#$%é→\u{1f600}\u0301\u00ad\u3000\ufeff"];

/** A seeded random number generator (mulberry32). */
export class Random {
  constructor(private state: number) {}

  /** A number in [0, 1). */
  fraction(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  below(bound: number): number {
    return Math.floor(this.fraction() * bound);
  }

  chance(probability: number): boolean {
    return this.fraction() < probability;
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new Error("nothing to pick from");
    return item;
  }

  some<T>(most: number, make: () => T): T[] {
    return Array.from({ length: this.below(most + 1) }, make);
  }

  maybe<T>(make: () => T): T | undefined {
    return this.chance(0.5) ? make() : undefined;
  }

  text(): string {
    return this.chance(0.6)
      ? this.pick(HOSTILE)
      : this.some(8, () => this.pick(CHARACTERS)).join("");
  }

  json(depth = 3): Json {
    const kind = this.below(depth > 0 ? 8 : 5);
    if (kind === 0) return null;
    if (kind === 1) return this.chance(0.5);
    if (kind === 2) return this.text();
    if (kind === 3) return wholeOf(this.whole());
    if (kind === 4) return floatOf(this.float()) ?? 0;
    if (kind < 7) return this.some(4, () => this.json(depth - 1));
    return new Map(this.some(4, () => [this.text(), this.json(depth - 1)] as const));
  }

  private whole(): bigint {
    const bits = this.below(64);
    const size = BigInt(this.below(2 ** 31)) << BigInt(Math.max(bits - 31, 0));
    return this.chance(0.3) ? -size : size;
  }

  private float(): number {
    return (this.fraction() - 0.5) * 10 ** (this.below(60) - 30) * (this.chance(0.2) ? 0 : 1);
  }

  flow(): Flow {
    const ids = [...new Set([...this.some(5, () => this.text()), "scan_1", "scan_2"])];
    const modules = ids.slice(this.below(3)).map((id) => this.module(id));
    const end = () =>
      modules.length > 0 && this.chance(0.8) ? this.pick(modules).id : this.text();
    const variables = this.some(3, () => [this.text(), this.variable()] as const);
    return {
      ...newFlow(this.text()),
      variables: sortByName(new Map(variables)),
      modules,
      queues: this.some(4, () => this.queue(end(), end())),
      layout: this.maybe(() => this.json()) ?? undefined,
      strays: NO_STRAYS,
    };
  }

  module(id: string): Module {
    const module = this.chance(0.7) ? this.pick([...BUILT_IN.keys()]) : this.text();
    const options = [...optionsOf(BUILT_IN.get(module)).keys()];
    const config = new Map<string, Json>();
    for (const option of options) if (this.chance(0.4)) config.set(option, this.value());
    if (this.chance(0.3)) config.set(this.text(), this.value());
    return {
      id,
      module,
      config,
      count: this.maybe(() => this.below(9)),
      per_worker: this.maybe(() => this.below(9)),
      workers: this.chance(0.3) ? this.some(3, () => this.text()) : [],
      unknown: EMPTY_OBJECT,
    };
  }

  private value(): Json {
    return this.chance(0.2) ? new Map([["$var", this.text()]]) : this.json();
  }

  private variable(): Variable {
    const value = this.maybe(() => this.json());
    return {
      default: value ?? undefined,
      doc: this.maybe(() => this.text()),
      unknown: EMPTY_OBJECT,
    };
  }

  private queue(from: string, to: string): Queue {
    const port = (): Port => (this.chance(0.5) ? this.below(5) : this.text());
    return {
      from,
      output: this.maybe(port),
      to,
      input: this.maybe(port),
      queue: this.maybe(() => this.pick(QUEUE_KINDS)),
      bytes_max: this.maybe(() => 1 + this.below(2 ** 40)),
      unknown: EMPTY_OBJECT,
    };
  }
}

/** Runs a property for `cases` seeds; an error names the seed that fails. */
export function forSeeds(cases: number, property: (random: Random) => void): void {
  const given = import.meta.env.STUDIO_SEED;
  const first = given === undefined ? 1 : Number(given);
  for (let seed = first; seed < first + cases; seed += 1) {
    try {
      property(new Random(seed));
    } catch (error) {
      throw new Error(`STUDIO_SEED=${seed} fails`, { cause: error });
    }
  }
}
