// Types of the server's API. The server decides, measures and names; the page computes no rate,
// bottleneck or slowness itself.

import type { Flow } from "../../document/flow";
import type { Json } from "../../document/json";
import type { Problem } from "../../document/problem";
import type { Spec } from "../../document/specs";

export interface Session {
  readonly version: string;
  readonly root: string;
  /** The path of the flow that the studio was started with, beneath the root. */
  readonly flow: string | null;
  readonly read_only: boolean;
  readonly machine: { readonly processors: number; readonly memory: number };
  /** Possible values of `cluster`; the empty one is the server's own process. */
  readonly clusters: readonly string[];
  /** Whether something beneath the root was run before. Scripts still need consent. */
  readonly trusted: boolean;
}

export interface FileEntry {
  readonly path: string;
  readonly kind: "document" | "script" | "data";
  readonly bytes: number;
  /** Seconds since 1970. */
  readonly modified: number;
}

export interface FileText {
  readonly text: string;
  /** A hash of the text; a save names the version that it replaces. */
  readonly version: string;
}

/** The engine's check of a flow. */
export interface CheckResult {
  readonly problems: readonly CheckProblem[];
  readonly queues: readonly CheckedQueue[];
  readonly modules: readonly CheckedModule[];
}

export interface CheckedModule {
  readonly id: string;
  readonly count: number;
  readonly outputs?: readonly { readonly name: string; readonly schema: readonly Column[] }[];
}

export interface CheckProblem {
  readonly at: { readonly module?: string; readonly queue?: number; readonly field?: string };
  readonly message: string;
  readonly remedy?: string;
}

export interface CheckedQueue {
  readonly from: string;
  readonly output: string;
  readonly to: string;
  readonly input: string;
  /** The queue kind that a run will use. */
  readonly kind: string;
  readonly why: string;
  readonly schema: readonly Column[];
}

export interface Column {
  readonly name: string;
  readonly type: string;
  readonly nullable?: boolean;
}

export type RunState = "running" | "done" | "failed" | "stopped";

/** A run as it is listed. */
export interface RunEntry {
  readonly id: string;
  readonly name: string;
  readonly state: RunState;
  /** Seconds since 1970. */
  readonly started: number;
  readonly seconds: number;
  readonly cluster: string;
  readonly variables: Readonly<Record<string, unknown>>;
  readonly error?: { readonly message: string } | string | null;
}

/** A run with all details. */
export interface Run extends RunEntry {
  readonly flow: Flow;
  readonly log: readonly string[];
  readonly progress?: Progress | undefined;
  readonly history?: History | undefined;
  readonly report?: Report | undefined;
  readonly failure?: Failure | undefined;
  /** Rows collected by sinks, by module. */
  readonly collected?: Readonly<Record<string, RowSample>> | undefined;
}

export interface Failure {
  readonly kind: string;
  readonly message: string;
  readonly module?: string;
  readonly traceback?: string;
  /** The first row that failed, if known. */
  readonly row?: FaultyRow;
  readonly remedy?: string;
}

export interface FaultyRow {
  /** Which row it is, and whether it is known to be the cause. */
  readonly about: string;
  readonly values: readonly { readonly column: string; readonly text: string | null }[];
}

/** A request to start a run. */
export interface RunRequest {
  readonly flow: Flow;
  readonly variables: ReadonlyMap<string, Json>;
  readonly cluster: string;
  readonly threads?: number | undefined;
  readonly memory?: string | undefined;
  readonly perturbations: readonly Perturbation[];
}

/** In the format of `euphrates perturb --from`. */
export type Perturbation = Readonly<Record<string, string | number | boolean>>;

export interface Progress {
  readonly run: string;
  readonly seconds: number;
  readonly modules: readonly ModuleProgress[];
  readonly queues: readonly QueueProgress[];
  readonly slow: readonly { readonly name: string; readonly factor: number | null }[];
  readonly bottleneck: Bottleneck | null;
  /** Active perturbations. */
  readonly perturbed?: readonly ActivePerturbation[];
}

/** A perturbation with the number that ends it; `after` counts from the run's begin. */
export type ActivePerturbation = Perturbation & { readonly number: number };

export interface Bottleneck {
  readonly name: string;
  readonly kind: "module" | "instance" | "disk";
  readonly why: string;
}

/** Shares of time spent working, waiting for input, and waiting for room in a queue. */
export interface TimeShares {
  readonly busy: number;
  readonly starved: number;
  readonly blocked: number;
}

export interface ModuleProgress extends TimeShares {
  readonly id: string;
  readonly count: number;
  readonly state: string;
  readonly rows_in: number;
  readonly bytes_in: number;
  readonly rows_out: number;
  readonly bytes_out: number;
  readonly rows_per_second: number;
  readonly bytes_per_second: number;
  readonly instances: readonly InstanceProgress[];
}

export interface InstanceProgress extends TimeShares {
  readonly name: string;
  readonly worker: string;
  readonly bytes_per_second: number;
  /** Slowdown relative to its peers; null if it stands still. */
  readonly slow?: number | null;
}

export type PortRef = readonly [id: string, port: string];

export interface QueueProgress {
  readonly from: PortRef;
  readonly to: PortRef;
  readonly rows_per_second: number;
  readonly bytes_per_second: number;
  readonly waiting_bytes: number;
  readonly bound_bytes: number;
}

/** Bytes moved by each instance, interval by interval. */
export interface History {
  readonly seconds: readonly number[];
  readonly series: readonly {
    readonly name: string;
    readonly module: string | null;
    readonly bytes_per_second: readonly number[];
  }[];
}

/** The report of a finished run: docs/report.md. */
export interface Report {
  readonly seconds: number;
  readonly modules: readonly ModuleReport[];
  readonly bottleneck: string | null;
  readonly perturbations?: readonly Perturbation[];
  readonly losses?: readonly string[];
  readonly ideal_seconds: number | null;
  readonly fraction_of_ideal: number | null;
  readonly ideal_bound: string | null;
  readonly divided_seconds: number | null;
  readonly slow: readonly SlowPeriod[];
}

export interface ModuleReport extends TimeShares {
  readonly id: string;
  readonly module: string;
  readonly count: number;
  readonly rows_in: number;
  readonly bytes_in: number;
  readonly rows_out: number;
  readonly bytes_out: number;
}

export interface SlowPeriod {
  readonly name: string;
  readonly from_seconds: number;
  readonly to_seconds: number;
  readonly factor: number | null;
  readonly than_before: boolean;
  readonly share_moved: number | null;
  readonly share_equal: number | null;
}

/** Rows sampled from a queue, as text. */
export interface RowSample {
  readonly schema: readonly Column[];
  readonly rows: readonly (readonly (string | null)[])[];
  readonly nulls?: readonly number[];
}

export type ServerEvent =
  | { readonly type: "runs" }
  | { readonly type: "progress"; readonly progress: Progress }
  | {
      readonly type: "ended";
      readonly run: string;
      readonly state: RunState;
      readonly error?: Failure;
    }
  | { readonly type: "report"; readonly run: string; readonly report: Report }
  | { readonly type: "file"; readonly path: string };

export interface BackendListener {
  readonly onEvent: (event: ServerEvent) => void;
  /** Called when the stream opens or breaks; events in between are lost. */
  readonly onLink: (isUp: boolean) => void;
}

/** A request that the server refused or did not answer. */
export class BackendError extends Error implements Problem {
  constructor(
    readonly status: number,
    problem: Problem,
    /** The current file, if the request named another version. */
    readonly theirs?: FileText,
  ) {
    super(problem.message);
    this.remedy = problem.remedy;
    this.place = problem.place;
  }
  readonly remedy: string | undefined;
  readonly place: string | undefined;
}

/** The server: files, engine and runs. */
export interface Backend {
  readonly session: () => Promise<Session>;
  readonly modules: () => Promise<readonly Spec[]>;
  readonly files: () => Promise<readonly FileEntry[]>;
  readonly read: (path: string) => Promise<FileText>;
  /** Replaces `version`, or creates the file if null; else a 409 with the current file. */
  readonly save: (path: string, text: string, version: string | null) => Promise<string>;
  /** Undefined if there is no draft, which is no error. */
  readonly readDraft: (path: string) => Promise<FileText | undefined>;
  readonly saveDraft: (path: string, text: string, version: string | null) => Promise<string>;
  readonly dropDraft: (path: string) => Promise<void>;
  /** A script's flow; null if it only defines modules, undefined if it may not be run. */
  readonly script: (path: string, run: boolean) => Promise<Flow | null | undefined>;
  readonly check: (flow: Flow, variables: ReadonlyMap<string, Json>) => Promise<CheckResult>;
  readonly runs: () => Promise<readonly RunEntry[]>;
  readonly start: (order: RunRequest) => Promise<string>;
  readonly run: (id: string) => Promise<Run>;
  readonly stop: (id: string) => Promise<void>;
  /** Removes the record of a run that has ended. */
  readonly remove: (id: string) => Promise<void>;
  readonly perturb: (id: string, perturbations: readonly Perturbation[]) => Promise<void>;
  /** Ends one perturbation, or all of them. */
  readonly unperturb: (id: string, number: number | undefined) => Promise<void>;
  readonly rows: (id: string, queue: number) => Promise<RowSample>;
  /** Subscribes to all events; returns the function that ends it. */
  readonly listen: (listener: BackendListener) => () => void;
}
