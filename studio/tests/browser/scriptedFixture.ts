// Setup shared by the tests with a scripted server: two files, and helpers that edit and run them.

import { expect } from "vitest";
import { card, inBrowser, page } from "./page";
import { ScriptedServer } from "./scriptedServer";

/** The server of the current test. */
export let server: ScriptedServer;

export const COPY = `{
  "euphrates": 1,
  "name": "copy",
  "modules": [
    {"id": "scan_1", "module": "scan", "config": {"path": "in.csv"}},
    {"id": "filter_1", "module": "filter", "config": {"where": "amount > 0"}, "count": 4},
    {"id": "save_1", "module": "save", "config": {"path": "out.parquet"}}
  ],
  "queues": [{"from": "scan_1", "to": "filter_1"}, {"from": "filter_1", "to": "save_1"}]
}
`;

/** Gives each test a server with `copy.json`, which it opens first, and `other.json`. */
export function withScriptedServer(): void {
  inBrowser(() => {
    server = new ScriptedServer();
    server.files.set("copy.json", COPY);
    server.files.set("other.json", COPY.replace('"copy"', '"other"'));
    return server;
  });
}

export async function startRun(): Promise<void> {
  await expect.poll(() => page.locator(".react-flow__node").count()).toBe(3);
  await page.getByRole("button", { name: "▶ Run" }).click();
  await expect.poll(() => page.url()).toContain("#/run/");
  await expect.poll(() => page.locator(".run-head").count()).toBe(1);
}

export async function steps(count: number): Promise<void> {
  for (let step = 0; step < count; step += 1) server.step();
  await expect.poll(() => page.locator(".live").count()).toBeGreaterThan(0);
}

export async function edit(where: string): Promise<void> {
  await card("filter_1").click();
  await page.getByLabel("where required").fill(where);
}
