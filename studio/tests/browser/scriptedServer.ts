// A scripted server without an engine: files are a map, and runs advance by one step when the test
// says so. No timing is involved.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import builtIn from "../../src/generated/modules.json";
import { POLICY } from "./contentSecurityPolicy";
import { type Document, ScriptedRun } from "./scriptedRun";

const TYPES: Readonly<Record<string, string>> = {
  html: "text/html",
  js: "text/javascript",
  css: "text/css",
  svg: "image/svg+xml",
};

interface Answer {
  readonly status?: number;
  readonly json: unknown;
}

export class ScriptedServer {
  readonly files = new Map<string, string>();
  readonly drafts = new Map<string, string>();
  readonly runs: ScriptedRun[] = [];
  /** Requests that change something, in order. */
  readonly asked: string[] = [];
  readOnly = false;
  private server: Server | undefined;
  private port = 0;
  private readonly streams = new Set<ServerResponse>();

  /** Listens, again on its previous port, and returns its URL. */
  async open(): Promise<string> {
    const server = createServer((request, response) => void this.serve(request, response));
    await new Promise<void>((done) => server.listen(this.port, "127.0.0.1", done));
    this.server = server;
    this.port = (server.address() as AddressInfo).port;
    return `http://127.0.0.1:${this.port}/`;
  }

  /** Closes all connections, as if killed. */
  async close(): Promise<void> {
    const { server } = this;
    this.server = undefined;
    this.streams.clear();
    server?.closeAllConnections();
    await new Promise<void>((done) => (server ? server.close(() => done()) : done()));
  }

  /** Changes a file as another writer. */
  change(path: string, text: string): void {
    this.files.set(path, text);
    this.tell("file", { path });
  }

  /** Advances all runs by one step and sends the events. */
  step(): void {
    for (const run of this.runs.filter(({ state }) => state === "running")) {
      run.step();
      this.tell("progress", run.progress());
      if (run.state !== "running") this.ended(run);
    }
  }

  /** Number of open event streams. */
  get listeners(): number {
    return this.streams.size;
  }

  private ended(run: ScriptedRun): void {
    const { id, state, error } = run;
    this.tell("ended", { run: id, state, ...(error ? { error } : {}) });
    if (run.report !== undefined) this.tell("report", { run: id, report: run.report });
    this.tell("runs", {});
  }

  private tell(event: string, data: unknown): void {
    for (const stream of this.streams) stream.write(frame(event, data));
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://127.0.0.1");
    response.setHeader("Content-Security-Policy", POLICY);
    response.setHeader("X-Content-Type-Options", "nosniff");
    if (pathname === "/api/events") return this.listenTo(request, response);
    if (!pathname.startsWith("/api/")) return page(pathname, response);
    const text = await bodyOf(request);
    const { status = 200, json } = isAllowed(request)
      ? this.answer(`${request.method} ${pathname.slice(5)}`, searchParams, text)
      : refusal(403, "unsafe methods need JSON and a header");
    response.writeHead(status, { "Content-Type": "application/json" });
    response.end(JSON.stringify(json));
  }

  /** The last request that starts with `what`; the very last one may be a delayed draft save. */
  lastOf(what: string): string | undefined {
    return this.asked.findLast((asked) => asked.startsWith(what));
  }

  private listenTo(request: IncomingMessage, response: ServerResponse): void {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write(": here\n\n");
    this.streams.add(response);
    request.on("close", () => this.streams.delete(response));
  }

  private answer(what: string, query: URLSearchParams, text: string): Answer {
    const body = text === "" ? {} : JSON.parse(text);
    const path = query.get("path") ?? body.path;
    const store = what.endsWith("draft") ? this.drafts : this.files;
    if (!what.startsWith("GET") && what !== "POST check") this.asked.push(`${what} ${text}`);
    switch (what) {
      case "GET session":
        return { json: this.session() };
      case "GET modules":
        return { json: builtIn };
      case "GET files":
        return { json: { files: [...this.files].map(([path, text]) => entry(path, text)) } };
      case "GET file":
        return found(store.get(path));
      case "GET draft":
        return this.drafts.has(path) ? found(store.get(path)) : { json: null };
      case "PUT file":
      case "PUT draft":
        return this.put(store, body);
      case "DELETE draft":
        this.drafts.delete(path);
        return { json: {} };
      case "POST script":
        return { json: body.run ? { document: SCRIPTED } : { needs_trust: true } };
      case "POST check":
        return { json: checked(body.document) };
      case "GET runs":
        return { json: this.runs.map((run) => run.entry()) };
      case "POST runs":
        return this.start(body);
      default:
        return this.ofRun(what, query, body);
    }
  }

  private session(): object {
    return {
      version: "0.1.0",
      root: "/srv/flows",
      flow: this.files.has("copy.json") ? "copy.json" : null,
      read_only: this.readOnly,
      machine: { processors: 8, memory: 32e9 },
      clusters: ["", "processes:2", "processes:4"],
      trusted: false,
    };
  }

  private put(store: Map<string, string>, body: { path: string; text: string; version: unknown }) {
    const { path, text, version } = body;
    const folder = path.slice(0, Math.max(path.lastIndexOf("/"), 0));
    const isFolder = [...this.files.keys()].some((known) => known.startsWith(`${folder}/`));
    if (folder !== "" && !isFolder) return refusal(404, `there is no folder ${folder}`);
    const there = store.get(path);
    const isSeen = there === undefined ? version === null : version === versionOf(there);
    if (!isSeen) {
      const error = { kind: "conflict", message: `${path} has changed` };
      const isGone = there === undefined;
      const theirs = { version: isGone ? null : versionOf(there), text: isGone ? null : there };
      return { status: 409, json: { error, ...theirs } };
    }
    store.set(path, text);
    return { json: { version: versionOf(text) } };
  }

  private start(body: { document: Document; variables: object; cluster?: string }): Answer {
    const run = new ScriptedRun(String(this.runs.length + 1), body);
    this.runs.push(run);
    this.tell("runs", {});
    return { json: { id: run.id } };
  }

  private ofRun(what: string, query: URLSearchParams, body: { perturbations?: [] }): Answer {
    const [, method, id, part = ""] = /^(\w+) runs\/(\w+)(?:\/(\w+))?$/.exec(what) ?? [];
    const run = this.runs.find((run) => run.id === id);
    if (run === undefined) return refusal(404, "there is no such run");
    switch (`${method} ${part}`) {
      case "GET ":
        return { json: run.all() };
      case "GET rows":
        return { json: run.rows(Number(query.get("queue"))) };
      case "POST stop":
        run.stop();
        this.ended(run);
        return { json: {} };
      case "POST perturb":
        run.perturb(body.perturbations ?? []);
        return { json: {} };
      case "DELETE perturb":
        run.unperturb(query.get("number"));
        return { json: {} };
      default:
        return refusal(405, "that is not to be asked of a run");
    }
  }
}

/** The flow of any script that is run. */
const SCRIPTED: Document = {
  euphrates: 1,
  name: "scripted",
  modules: [{ id: "generate_1", module: "generate", config: { what: "integers", rows: 5 } }],
  queues: [],
};

function isAllowed({ method, headers }: IncomingMessage): boolean {
  if (method === "GET") return true;
  return headers["content-type"] === "application/json" && headers["x-euphrates"] === "1";
}

function refusal(status: number, message: string): Answer {
  return { status, json: { error: { kind: "usage", message } } };
}

function found(text: string | undefined): Answer {
  if (text === undefined) return refusal(404, "there is no such file");
  return { json: { text, version: versionOf(text) } };
}

function entry(path: string, text: string): object {
  const kinds: Readonly<Record<string, string>> = { py: "script", json: "document" };
  const kind = kinds[path.split(".").at(-1) ?? ""] ?? "data";
  return { path, kind, bytes: text.length, modified: 1_790_000_000 };
}

function versionOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

function frame(event: string, data: unknown): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

function page(pathname: string, response: ServerResponse): void {
  const name = pathname === "/" ? "/index.html" : pathname;
  try {
    const content = readFileSync(`dist${name}`);
    const type = TYPES[name.split(".").at(-1) ?? ""] ?? "application/octet-stream";
    response.writeHead(200, { "Content-Type": type }).end(content);
  } catch {
    response.writeHead(404).end();
  }
}

const COLUMNS = [
  { name: "id", type: "int64", nullable: false },
  { name: "name", type: "string", nullable: true },
  { name: "amount", type: "float64", nullable: true },
];

const MADE: Readonly<Record<string, readonly string[]>> = {
  integers: ["n"],
  orders: ["o_orderkey", "o_custkey", "o_totalprice"],
  customer: ["c_custkey", "c_name", "c_mktsegment"],
};

function columnsFrom(module: Document["modules"][number] | undefined): readonly object[] {
  const names = MADE[String(module?.config?.what)];
  return names?.map((name) => ({ name, type: "int64", nullable: false })) ?? COLUMNS;
}

/** The engine's check: `missing.csv` does not exist. */
function checked({ modules, queues }: Document): object {
  const problems = modules.flatMap(({ id, config }) =>
    config?.path === "missing.csv"
      ? [{ at: { module: id, field: "path" }, message: "no file matches `missing.csv`" }]
      : [],
  );
  const isSort = (id: string) => modules.some((one) => one.id === id && one.module === "sort");
  const checkedQueues = queues.map(({ from, to, output, input }) => ({
    from,
    output: String(output ?? "out"),
    to,
    input: String(input ?? "in"),
    kind: isSort(to) ? "keyed" : "distributed",
    why: isSort(to) ? "the consumer takes whole partitions" : "the consumer needs no order",
    schema: columnsFrom(modules.find(({ id }) => id === from)),
  }));
  return { problems, queues: checkedQueues, modules: modules.map(({ id }) => ({ id, count: 2 })) };
}
