// Opens the studio in a locally installed Chromium. Any console error, or violation of the content
// security policy, fails the test.

import { readFileSync } from "node:fs";
import type { AxeResults } from "axe-core";
import {
  type Browser,
  type BrowserContext,
  chromium,
  type Locator,
  type Page,
} from "playwright-core";
import { type PreviewServer, preview } from "vite";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import { POLICY } from "./contentSecurityPolicy";

const CHROMIUM = import.meta.env.STUDIO_CHROMIUM ?? "/usr/bin/chromium";
const ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"];

/** The page of the current test. */
export let page: Page;
let context: BrowserContext;
let address = "";
const closers: (() => Promise<void>)[] = [];
const complaints: string[] = [];

/** A server of the page; `open` returns its URL, or the link that starts a session. */
export interface PageServer {
  readonly open: () => Promise<string>;
  readonly close: () => Promise<void>;
}

/** Serves the built page without a backend. */
function alone(): PageServer {
  let server: PreviewServer | undefined;
  return {
    open: async () => {
      server = await preview({ preview: { port: 0, host: "127.0.0.1" }, logLevel: "silent" });
      return server.resolvedUrls?.local[0] ?? "";
    },
    close: async () => server?.close(),
  };
}

/** Gives each test its own page, and with `served` its own server. */
export function inBrowser(served?: () => PageServer): void {
  const shared = served === undefined ? alone() : undefined;
  let browser: Browser;
  let server: PageServer | undefined;

  beforeAll(async () => {
    if (shared !== undefined) address = await shared.open();
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });
    closers.push(() => browser.close());
    if (shared !== undefined) closers.push(shared.close);
  });

  beforeEach(async () => {
    complaints.length = 0;
    server = served?.();
    const link = (await server?.open()) ?? address;
    address = new URL("/", link).href;
    const permissions = ["clipboard-read", "clipboard-write"];
    context = await browser.newContext({ viewport: { width: 1400, height: 860 }, permissions });
    if (import.meta.env.STUDIO_PAGE !== undefined) await servePage(import.meta.env.STUDIO_PAGE);
    page = await tabAt(link);
  });

  afterEach(async () => {
    await context.close();
    await server?.close();
    expect(complaints).toEqual([]);
  });

  afterAll(async () => {
    for (const close of closers) await close();
  });
}

/** Serves the page from a folder, in place of the one that is compiled into the server. */
async function servePage(folder: string): Promise<void> {
  await context.route(/\/(assets\/[^?]*|icon\.svg|\?code=.*)?$/, async (route) => {
    const { pathname, search } = new URL(route.request().url());
    // The server answers its link with the cookie of a session.
    if (search !== "") await route.fetch({ maxRedirects: 0 });
    const name = pathname.slice(1) || "index.html";
    const headers = { "Content-Security-Policy": POLICY };
    return route.fulfill({ path: `${folder}/${name}`, headers });
  });
}

/** Opens another tab. */
export function newTab(hash = ""): Promise<Page> {
  return tabAt(`${address}${hash}`);
}

/** Opens a tab at a link. */
export async function tabAt(link: string): Promise<Page> {
  const tab = await context.newPage();
  tab.on("pageerror", (error) => complaints.push(error.message));
  tab.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  await tab.goto(link);
  await tab.waitForSelector(".react-flow");
  return tab;
}

/** Removes expected console messages, such as the browser's own about failed requests. */
export function forgive(...words: string[]): void {
  const left = complaints.filter((text) => !words.some((word) => text.includes(word)));
  complaints.splice(0, Number.POSITIVE_INFINITY, ...left);
}

/** The flow's Python code as shown. */
export function code(): Promise<string> {
  return page.getByLabel("The flow in Python").inputValue();
}

/** The `flow.attach` lines of the code. */
export async function queues(): Promise<string[]> {
  const lines = (await code()).split("\n");
  return lines.filter((line) => line.startsWith("flow.attach"));
}

/** Replaces the flow's Python code. */
export async function writeCode(text: string): Promise<void> {
  await page.getByLabel("The flow in Python").fill(`import euphrates as eu\n${text}`);
}

export function card(id: string): Locator {
  return page.locator(`.react-flow__node[data-id="${id}"]`);
}

/** The side bar's entry with this name. */
export function entry(name: string): Locator {
  return page.locator(".entry", { has: page.getByText(name, { exact: true }) });
}

export function button(name: string): Locator {
  return page.getByRole("button", { name, exact: true });
}

export async function middleOf(locator: Locator): Promise<{ x: number; y: number }> {
  const box = await locator.boundingBox();
  if (box === null) throw new Error("it is not to be seen");
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
}

/** Drags with the mouse along a detour; releases the button unless `letsGo` is false. */
export async function drag(from: Locator, to: Locator, letsGo = true): Promise<void> {
  const [start, end] = [await middleOf(from), await middleOf(to)];
  await page.mouse.move(start.x, start.y);
  await page.mouse.down();
  await page.mouse.move((start.x + end.x) / 2, end.y + 60, { steps: 5 });
  await page.mouse.move(end.x, end.y, { steps: 5 });
  if (letsGo) await page.mouse.up();
}

/**
 * Records re-rendered nodes and edges from now on, as `card m1` or `line …`; returns the function
 * that lists them. Attributes are off by default: focus and selection change them as well.
 */
export async function watchRendering({
  attributes = false,
} = {}): Promise<() => Promise<string[]>> {
  await page.evaluate((attributes) => {
    const seen = new Set<string>();
    Object.assign(window, { seen });
    new MutationObserver((changes) => {
      for (const { target } of changes) {
        const element = target instanceof Element ? target : target.parentElement;
        const drawn = element?.closest(".react-flow__node, .react-flow__edge");
        const kind = drawn?.classList.contains("react-flow__node") ? "card" : "line";
        if (drawn) seen.add(`${kind} ${drawn.getAttribute("data-id")}`);
      }
    }).observe(document.body, {
      subtree: true,
      childList: true,
      characterData: true,
      attributes,
    });
  }, attributes);
  return () => page.evaluate(() => [...(window as unknown as { seen: Set<string> }).seen]);
}

/** Serious accessibility violations that axe finds, within a part of the page or all of it. */
export async function accessibilityViolations(within = page.locator("html")): Promise<string[]> {
  await page.evaluate(readFileSync("node_modules/axe-core/axe.min.js", "utf8"));
  const { violations } = await within.evaluate((part) => {
    type Axe = { run: (part: Node) => Promise<AxeResults> };
    return (window as unknown as { axe: Axe }).axe.run(part);
  });
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(" | ")}`);
}
