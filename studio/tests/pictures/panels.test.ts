// Takes the manual's screenshots of the built page: `npm run pictures`.

import { readFileSync } from "node:fs";
import { test } from "vitest";
import { card, inBrowser, page } from "../browser/page";
import { ScriptedServer } from "../browser/scriptedServer";

const FOLDER = process.env.STUDIO_PICTURES ?? "pictures";
let server: ScriptedServer;

inBrowser(() => {
  server = new ScriptedServer();
  const text = (name: string) => readFileSync(`gallery/${name}.json`, "utf8");
  server.files.set("copy.json", text("slow_consumer"));
  server.files.set("nightly/clean.json", text("clean"));
  server.files.set("nightly/join.json", text("join"));
  server.files.set("sort_logs.py", "import euphrates as eu\n");
  return server;
});

async function picture(name: string): Promise<void> {
  await page.screenshot({ path: `${FOLDER}/studio-${name}.png` });
}

async function run(): Promise<void> {
  await page.getByRole("button", { name: "▶ Run" }).click();
  await page.locator(".run-head").waitFor();
}

async function steps(count: number): Promise<void> {
  for (let step = 0; step < count; step += 1) {
    server.step();
    const duration = `${((step + 1) / 4).toFixed(2)} s`;
    await page.locator(".run-head", { hasText: duration }).waitFor();
  }
}

async function theme(name: "light" | "dark"): Promise<void> {
  await page.getByLabel("Colours").selectOption(name);
}

test("editing", async () => {
  await page.getByRole("tab", { name: "Files" }).click();
  await page.locator(".entry", { hasText: "nightly/join.json" }).click();
  await card("join_1").waitFor();
  await page.getByRole("button", { name: "Fit View" }).click();
  await page.getByRole("tab", { name: "Modules" }).click();
  await card("join_1").click();
  await theme("light");
  await picture("edit");
  await theme("dark");
  await picture("edit-dark");
});

test("running", async () => {
  await theme("light");
  await card("work").click();
  await run();
  await steps(30);
  await picture("run");
  await page.getByRole("button", { name: "Slow something…" }).click();
  await page.getByLabel("Which", { exact: true }).selectOption("work.2");
  await picture("perturb");
  await page.getByRole("button", { name: "Slow it" }).click();
  server.step();
  await page.locator(".told", { hasText: "work.2" }).first().waitFor();
  await picture("slow");
  await page.getByRole("tab", { name: "Instances" }).click();
  await theme("dark");
  await picture("instances-dark");
  await page.locator(".react-flow__edge").nth(1).focus();
  await page.keyboard.press("Enter");
  await page.locator(".rows").waitFor();
  await picture("rows-dark");
  await theme("light");
  for (let step = 0; step < 10; step += 1) server.step();
  await page.locator(".report").waitFor();
  await picture("report");
  await page.getByRole("tab", { name: "Runs" }).click();
  await picture("runs");
  await page.getByRole("button", { name: "Run again" }).click();
  await page.locator(".run-head", { hasText: "0.00 s" }).waitFor();
  for (let step = 0; step < 24; step += 1) server.step();
  await page.getByRole("button", { name: "■ Stop" }).click();
  await page.getByLabel("Compare run 1").check();
  await page.getByLabel("Compare run 2").check();
  await page.getByText("Compare the two").click();
  await page.locator(".chart").waitFor();
  await picture("compare");
});

test("dialogs and failure", async () => {
  await theme("light");
  await page.getByRole("button", { name: "New…" }).click();
  await picture("gallery");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Run with…" }).click();
  await picture("start");
  await page.keyboard.press("Escape");
  await page.getByRole("tab", { name: "Files" }).click();
  await page.locator(".entry", { hasText: "clean.json" }).click();
  await card("complete").click();
  await page.getByLabel("where required").fill("boom");
  await run();
  for (let step = 0; step < 3; step += 1) server.step();
  await page.locator(".failure").waitFor();
  await picture("failed");
});
