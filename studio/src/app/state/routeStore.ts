// The route: which file, run, module or queue the URL's hash addresses.

import { create } from "zustand";

export interface Route {
  /** A file's path beneath the root. */
  readonly file?: string;
  readonly run?: string;
  /** The queue's position in the run's flow. */
  readonly queue?: number;
  readonly module?: string;
  /** The run that `run` is compared with. */
  readonly other?: string;
}

export const useRoute = create<Route>(() => routeOf(""));

/** Parses `#/run/3/queue/1`, `#/run/3/module/sort_1`, `#/compare/3/4`, `#/file/a/copy.json`. */
export function routeOf(hash: string): Route {
  const [kind, first, what, second, ...more] = hash.replace(/^#\/?/, "").split("/").map(plain);
  if (first === undefined || first === "") return {};
  if (kind === "file") return { file: [first, what, second, ...more].filter(isGiven).join("/") };
  const ids = kind === "compare" && what ? [first, what] : [first];
  if (!ids.every(isId)) return {};
  if (kind === "compare" && what) return { run: first, other: what };
  if (kind !== "run") return {};
  if (what === "queue" && /^[0-9]+$/.test(second ?? ""))
    return { run: first, queue: Number(second) };
  if (what === "module" && second) return { run: first, module: second };
  return { run: first };
}

/** Inverse of `parseRoute`. */
export function hashOf({ file, run, queue, module, other }: Route): string {
  if (run !== undefined && other !== undefined) return `#/compare/${safe(run)}/${safe(other)}`;
  if (run !== undefined && queue !== undefined) return `#/run/${safe(run)}/queue/${queue}`;
  if (run !== undefined && module !== undefined) return `#/run/${safe(run)}/module/${safe(module)}`;
  if (run !== undefined) return `#/run/${safe(run)}`;
  if (file !== undefined) return `#/file/${file.split("/").map(safe).join("/")}`;
  return "#/";
}

/** Navigates to a route, with a new entry in the browser's history. */
export function go(route: Route): void {
  if (hashOf(route) === hashOf(useRoute.getState())) return;
  window.history.pushState(null, "", hashOf(route));
  useRoute.setState(route, true);
}

/** Sets the route without a new entry in the browser's history. */
export function note(route: Route): void {
  window.history.replaceState(null, "", hashOf(route));
  useRoute.setState(route, true);
}

/** Follows the URL; returns the function that stops it. */
export function followAddress(): () => void {
  const follow = () => useRoute.setState(routeOf(window.location.hash), true);
  follow();
  window.addEventListener("hashchange", follow);
  window.addEventListener("popstate", follow);
  return () => {
    window.removeEventListener("hashchange", follow);
    window.removeEventListener("popstate", follow);
  };
}

/** Whether a text can be a run's id: nothing that could lead to another path of the API. */
function isId(text: string): boolean {
  return /^[\w-]+$/.test(text);
}

function safe(part: string): string {
  return encodeURIComponent(part);
}

function plain(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function isGiven(part: string | undefined): boolean {
  return part !== undefined && part !== "";
}
