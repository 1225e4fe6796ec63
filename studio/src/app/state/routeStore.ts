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

export const useRoute = create<Route>(() => parseRoute(""));

/** Parses `#/run/3/queue/1`, `#/run/3/module/sort_1`, `#/compare/3/4`, `#/file/a/copy.json`. */
export function parseRoute(hash: string): Route {
  const [kind, first, what, second, ...more] = hash.replace(/^#\/?/, "").split("/").map(decodePart);
  if (first === undefined || first === "") return {};
  if (kind === "file") return { file: [first, what, second, ...more].filter(isNonEmpty).join("/") };
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
export function formatRoute({ file, run, queue, module, other }: Route): string {
  if (run !== undefined && other !== undefined)
    return `#/compare/${encodePart(run)}/${encodePart(other)}`;
  if (run !== undefined && queue !== undefined) return `#/run/${encodePart(run)}/queue/${queue}`;
  if (run !== undefined && module !== undefined)
    return `#/run/${encodePart(run)}/module/${encodePart(module)}`;
  if (run !== undefined) return `#/run/${encodePart(run)}`;
  if (file !== undefined) return `#/file/${file.split("/").map(encodePart).join("/")}`;
  return "#/";
}

/** Navigates to a route, with a new entry in the browser's history. */
export function navigate(route: Route): void {
  if (formatRoute(route) === formatRoute(useRoute.getState())) return;
  window.history.pushState(null, "", formatRoute(route));
  useRoute.setState(route, true);
}

/** Sets the route without a new entry in the browser's history. */
export function replaceRoute(route: Route): void {
  window.history.replaceState(null, "", formatRoute(route));
  useRoute.setState(route, true);
}

/** Follows the URL; returns the function that stops it. */
export function syncRouteWithUrl(): () => void {
  const follow = () => useRoute.setState(parseRoute(window.location.hash), true);
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

function encodePart(part: string): string {
  return encodeURIComponent(part);
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function isNonEmpty(part: string | undefined): boolean {
  return part !== undefined && part !== "";
}
