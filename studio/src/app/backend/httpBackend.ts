// Backend over HTTP: fetch and one event stream, at the page's own origin. Documents are sent as
// text that the page prints, since JavaScript's own JSON loses the exact form of numbers.

import {
  isObject,
  type Json,
  type JsonObject,
  printOnOneLine,
  readJson,
} from "../../document/json";
import { openJson } from "../../document/openDocument";
import { writeDocument } from "../../document/writeDocument";
import {
  type Backend,
  BackendError,
  type BackendListener,
  type CheckResult,
  type Failure,
  type FileText,
  type Run,
  type RunEntry,
  type RunRequest,
  type ServerEvent,
} from "./api";

/** Reconnect delay: doubled after each attempt, from `first` to `most`. */
const RETRY_MS = { first: 1_000, most: 15_000 };

export const httpBackend: Backend = {
  session: () => get("session"),
  modules: () => get("modules"),
  files: async () => (await get<{ files: [] }>("files")).files,
  read: (path) => get(`file?${query({ path })}`),
  save: (path, text, version) => put("file", { path, text, version }),
  readDraft: async (path) => {
    try {
      return (await get<FileText | null>(`draft?${query({ path })}`)) ?? undefined;
    } catch (error) {
      if (error instanceof BackendError && error.status === 404) return undefined;
      throw error;
    }
  },
  saveDraft: (path, text, version) => put("draft", { path, text, version }),
  dropDraft: (path) => send("DELETE", `draft?${query({ path })}`),
  script: async (path, run) => {
    const answer = member(await send<JsonObject>("POST", "script", { path, run }, readMembers));
    if (answer("needs_trust") === true) return undefined;
    const document = answer("document");
    return document === null ? null : openJson(document).flow;
  },
  check: (flow, variables) =>
    send<CheckResult>(
      "POST",
      "check",
      `{"document":${writeDocument(flow)},"variables":${variablesJson(variables)}}`,
    ),
  runs: () => get<readonly RunEntry[]>("runs"),
  start: async (order) => (await send<{ id: string }>("POST", "runs", runRequestBody(order))).id,
  run: readRun,
  stop: (id) => send("POST", `runs/${encodeURIComponent(id)}/stop`, {}),
  remove: (id) => send("DELETE", `runs/${encodeURIComponent(id)}`),
  perturb: (id, perturbations) =>
    send("POST", `runs/${encodeURIComponent(id)}/perturb`, { perturbations }),
  unperturb: (id, number) => {
    const which = number === undefined ? "" : `?${query({ number })}`;
    return send("DELETE", `runs/${encodeURIComponent(id)}/perturb${which}`);
  },
  rows: (id, queue) => get(`runs/${encodeURIComponent(id)}/rows?${query({ queue })}`),
  listen,
};

function query(values: Readonly<Record<string, string | number>>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
    .join("&");
}

function get<T>(path: string): Promise<T> {
  return send<T>("GET", path);
}

async function put(path: string, body: object): Promise<string> {
  return (await send<{ version: string }>("PUT", path, body)).version;
}

type Reader = (text: string) => unknown;

/** Sends a request; a text body is JSON already. Throws a `BackendError`. */
async function send<T>(
  method: string,
  path: string,
  body?: object | string,
  read: Reader = JSON.parse,
): Promise<T> {
  const headers = { "Content-Type": "application/json", "X-Euphrates": "1" };
  const text = typeof body === "object" ? JSON.stringify(body) : body;
  let response: Response;
  try {
    response = await fetch(`api/${path}`, {
      method,
      ...(method === "GET" ? {} : { headers }),
      ...(text === undefined ? {} : { body: text }),
    });
  } catch {
    throw new BackendError(0, { message: "the server does not answer", remedy: "is it running?" });
  }
  const answer = await response.text();
  if (!response.ok) throw errorOf(response.status, answer);
  if (answer === "") return undefined as T;
  try {
    return read(answer) as T;
  } catch {
    throw new BackendError(response.status, { message: "the answer is no JSON" });
  }
}

function errorOf(status: number, answer: string): BackendError {
  const problem = { message: `the server says ${status}` };
  try {
    const { error, version, text } = JSON.parse(answer);
    const { message, remedy, at } = error ?? {};
    const reported =
      typeof message === "string" ? { message, remedy, place: placeOf(at) } : problem;
    const theirs = status === 409 && typeof text === "string" ? { text, version } : undefined;
    return new BackendError(status, reported, theirs);
  } catch {
    return new BackendError(status, problem);
  }
}

function placeOf(at: unknown): string | undefined {
  return typeof at === "string" && at !== "" ? at : undefined;
}

function variablesJson(values: ReadonlyMap<string, Json>): string {
  return printOnOneLine(new Map(values));
}

function runRequestBody({
  flow,
  variables,
  cluster,
  threads,
  memory,
  perturbations,
}: RunRequest): string {
  const document = writeDocument(flow);
  const rest = JSON.stringify({ cluster, threads, memory, perturbations });
  return `{"document":${document},"variables":${variablesJson(variables)},${rest.slice(1)}`;
}

function readMembers(text: string): JsonObject {
  const { value, isComplete } = readJson(text);
  if (!isComplete || !isObject(value)) throw new SyntaxError("no object");
  return value;
}

function member(members: JsonObject): (name: string) => Json | undefined {
  return (name) => members.get(name);
}

async function readRun(id: string): Promise<Run> {
  let plain: Omit<Run, "flow" | "failure"> | undefined;
  const members = await send<JsonObject>(
    "GET",
    `runs/${encodeURIComponent(id)}`,
    undefined,
    (text) => {
      plain = JSON.parse(text);
      return readMembers(text);
    },
  );
  if (plain === undefined) throw new BackendError(0, { message: "the answer is no run" });
  const { flow } = openJson(members.get("document"));
  const error = plain.error as Failure | string | null | undefined;
  const failure = typeof error === "string" ? { kind: "failed", message: error } : error;
  return { ...plain, flow, failure: failure ?? undefined, log: (plain.log ?? []).map(String) };
}

/**
 * One event stream for all topics, reopened whenever it breaks. A browser has six connections for
 * all its tabs, so a hidden tab closes its stream.
 */
function listen({ onEvent, onLink }: BackendListener): () => void {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let wait = RETRY_MS.first;
  const open = () => {
    source = new EventSource("api/events");
    source.addEventListener("open", () => {
      wait = RETRY_MS.first;
      onLink(true);
    });
    source.addEventListener("error", () => {
      onLink(false);
      // The browser retries broken connections itself, but not refused ones.
      if (source?.readyState !== EventSource.CLOSED) return;
      timer = setTimeout(open, wait);
      wait = Math.min(wait * 2, RETRY_MS.most);
    });
    for (const [type, read] of Object.entries(EVENTS)) {
      source.addEventListener(type, ({ data }) => onEvent(read(data)));
    }
  };
  const close = () => {
    clearTimeout(timer);
    source?.close();
  };
  const turn = () => {
    close();
    if (!document.hidden) open();
  };
  if (document.hidden) onLink(false);
  else open();
  document.addEventListener("visibilitychange", turn);
  return () => {
    document.removeEventListener("visibilitychange", turn);
    close();
  };
}

const EVENTS: Readonly<Record<ServerEvent["type"], (data: string) => ServerEvent>> = {
  runs: () => ({ type: "runs" }),
  progress: (data) => ({ type: "progress", progress: JSON.parse(data) }),
  ended: (data) => ({ ...JSON.parse(data), type: "ended" }),
  report: (data) => ({ ...JSON.parse(data), type: "report" }),
  file: (data) => ({ ...JSON.parse(data), type: "file" }),
};
