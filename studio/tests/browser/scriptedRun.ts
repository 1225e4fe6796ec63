// A simulated run: plausible figures that change by steps.

export interface Document {
  readonly euphrates: number;
  readonly name: string;
  readonly modules: readonly {
    readonly id: string;
    readonly module: string;
    readonly config?: Readonly<Record<string, unknown>>;
    readonly count?: number;
  }[];
  readonly queues: readonly {
    readonly from: string;
    readonly to: string;
    readonly output?: string | number;
    readonly input?: string | number;
  }[];
}

interface RunRequest {
  readonly document: Document;
  readonly variables: object;
  readonly cluster?: string;
}

interface Perturbation {
  readonly instance?: string;
  readonly module?: string;
  readonly share?: number;
}

/** Steps per second of the run. */
const STEPS = 4;
/** Steps until a run ends by itself. */
export const STEPS_MAX = 40;
/** Bytes per second of an unperturbed instance. */
const RATE = 49e6;
const ROW_BYTES = 80;

export class ScriptedRun {
  state: "running" | "done" | "failed" | "stopped" = "running";
  error: object | undefined;
  report: object | undefined;
  private perturbed: readonly (Perturbation & { readonly number: number })[] = [];
  private perturbations = 0;
  steps = 0;
  private readonly log: string[] = ["plan: 2 workers"];
  private readonly positions: ReadonlyMap<string, number>;

  constructor(
    readonly id: string,
    private readonly order: RunRequest,
  ) {
    this.positions = new Map(order.document.modules.map(({ id }, position) => [id, position]));
  }

  /** Advances the run: it fails if a filter says `boom`, and ends after `STEPS_MAX` steps. */
  step(): void {
    this.steps += 1;
    const failing = this.order.document.modules.find(({ config }) => config?.where === "boom");
    if (failing !== undefined && this.steps >= 3) {
      this.state = "failed";
      this.error = {
        kind: "failed",
        message: "ZeroDivisionError: division by zero",
        module: failing.id,
        traceback: 'Traceback (most recent call last):\n  File "clean.py", line 7, in rate\n',
        row: {
          about: "row 17 of its input",
          values: [
            { column: "id", text: "17" },
            { column: "name", text: "<b>Eve</b>" },
            { column: "amount", text: null },
          ],
        },
      };
    } else if (this.steps >= STEPS_MAX) {
      this.state = "done";
      this.report = this.reported();
    }
  }

  perturb(list: readonly Perturbation[]): void {
    const numbered = list.map((one) => ({ ...one, number: this.perturbations++ }));
    this.perturbed = [...this.perturbed, ...numbered];
  }

  unperturb(number: string | null): void {
    const isLeft = (one: { readonly number: number }) => number && one.number !== Number(number);
    this.perturbed = this.perturbed.filter(isLeft);
  }

  stop(): void {
    this.state = "stopped";
    this.log.push("stopped");
  }

  entry(): object {
    const { id, state, error, order } = this;
    const { document, variables, cluster = "" } = order;
    const started = 1_790_000_000 + Number(id);
    const seconds = this.steps / STEPS;
    return { id, name: document.name, state, started, seconds, cluster, variables, error };
  }

  all(): object {
    const { log, report } = this;
    const progress = this.steps > 0 ? this.progress() : undefined;
    const history = this.steps > 0 ? this.history() : undefined;
    return { ...this.entry(), document: this.order.document, log, report, progress, history };
  }

  /** The throughput of each module's first instance, every step. */
  private history(): object {
    const seconds = Array.from({ length: this.steps }, (_, step) => (step + 1) / STEPS);
    const series = this.order.document.modules.map(({ id }, position) => ({
      name: `${id}.0`,
      module: id,
      bytes_per_second: seconds.map((one) => RATE * (1 + 0.2 * Math.sin(one + position))),
    }));
    return { seconds, series };
  }

  rows(queue: number): object {
    const schema = [
      { name: "id", type: "int64" },
      { name: "name", type: "string" },
    ];
    const rows = Array.from({ length: 100 }, (_, i) => [
      String(i),
      i === 3 ? null : `<img src=x onerror=alert(${queue})>`,
    ]);
    return { schema, rows, nulls: [0, 1] };
  }

  progress(): object {
    const { modules, queues } = this.order.document;
    const progressOfModules = modules.map((module) => this.moduleTold(module));
    const found = new Map(progressOfModules.map((module) => [module.id, module]));
    const rateOf = (id: string) => found.get(id)?.bytes_per_second ?? 0;
    const isSteady = (id: string) => found.get(id)?.count === 1;
    const slow = progressOfModules.flatMap(({ instances }) =>
      instances.filter((one) => "slow" in one),
    );
    const worst = slow[0];
    return {
      run: this.id,
      seconds: this.steps / STEPS,
      modules: progressOfModules,
      queues: queues.map(({ from, to, output = "out", input = "in" }, i) => ({
        from: [from, String(output)],
        to: [to, String(input)],
        rows_per_second: rateOf(from) / ROW_BYTES,
        bytes_per_second: rateOf(from),
        // Full before the second module, the slowest, and nearly empty elsewhere.
        waiting_bytes:
          ((this.positions.get(to) === 1 ? 6 : i % 2) + (isSteady(from) ? 0 : this.steps % 3)) *
          1e6,
        bound_bytes: 8e6,
      })),
      slow: slow.map(({ name, slow }) => ({ name, factor: slow })),
      bottleneck: this.bottleneck(worst?.name),
      perturbed: this.perturbed,
    };
  }

  private bottleneck(slow: string | undefined): object | null {
    if (slow !== undefined) {
      const why = "slow beside its peers, and its consumers starve";
      return { name: slow, kind: "instance", why };
    }
    const [, second] = this.order.document.modules;
    if (second === undefined) return null;
    return {
      name: second.id,
      kind: "module",
      why: "busy 97 % of the time, and blocks its producer",
    };
  }

  /** Progress of a module; constant for modules with one instance. */
  private moduleTold({ id, count = 2 }: Document["modules"][number]) {
    const position = this.positions.get(id) ?? 0;
    const step = count === 1 ? 0 : this.steps;
    const instances = Array.from({ length: count }, (_, i) => {
      const name = `${id}.${i}`;
      const share = this.perturbed.find((one) => one.instance === name || one.module === id);
      const left = 1 - (share?.share ?? 0);
      const times = timesOf(position, step);
      const slow = share?.instance === undefined ? {} : { slow: 1 / left };
      return { name, worker: `w${i % 2}`, ...times, bytes_per_second: RATE * left, ...slow };
    });
    const bytes = instances.reduce((sum, one) => sum + one.bytes_per_second, 0);
    const wave = 1 + 0.2 * Math.sin(step / 3 + position);
    const rate = this.state === "running" ? bytes * wave : 0;
    const moved = bytes * (this.steps / STEPS);
    return {
      id,
      count,
      state: this.state === "running" ? "busy" : "ended",
      ...timesOf(position, step),
      rows_in: Math.round(moved / ROW_BYTES),
      bytes_in: moved,
      rows_out: Math.round(moved / ROW_BYTES),
      bytes_out: moved,
      rows_per_second: rate / ROW_BYTES,
      bytes_per_second: rate,
      instances,
    };
  }

  private reported(): object {
    const modules = this.order.document.modules.map((module) => {
      return { ...this.moduleTold(module), module: module.module };
    });
    return {
      name: this.order.document.name,
      seconds: this.steps / STEPS,
      modules,
      bottleneck: modules[1]?.id ?? null,
      ideal_seconds: 9.1,
      fraction_of_ideal: 0.91,
      ideal_bound: "d1",
      divided_seconds: 21.6,
      slow: [
        {
          name: `${modules[1]?.id}.1`,
          from_seconds: 2,
          to_seconds: 9.5,
          factor: 4,
          than_before: false,
          share_moved: 0.09,
          share_equal: 0.25,
        },
      ],
    };
  }
}

function timesOf(position: number, step: number) {
  const busy = Math.max(0.97 - 0.3 * Math.abs(position - 1) - 0.02 * (step % 3), 0.1);
  const rest = 1 - busy;
  return position === 0
    ? { busy, starved: 0, blocked: rest }
    : { busy, starved: rest * 0.8, blocked: rest * 0.2 };
}
