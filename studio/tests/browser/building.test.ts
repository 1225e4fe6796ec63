// The first flow that anybody makes: by mouse, by keyboard alone, undone, and looked at by a
// program that knows what people with other eyes and hands need.

import { readFileSync } from "node:fs";
import type { AxeResults } from "axe-core";
import { expect, test } from "vitest";
import { card, code, drag, inBrowser, middleOf, page, queues, watchDrawing } from "./page";
import { STEPS_MAX } from "./run";
import { StudioServer } from "./server";

let server: StudioServer;

inBrowser(() => {
  server = new StudioServer();
  return server;
});

const entry = (name: string) =>
  page.locator(".entry", { has: page.getByText(name, { exact: true }) });

test("the copy flow is built by mouse, saved, and run", async () => {
  const canvas = page.locator(".react-flow");
  await entry("scan").dragTo(canvas, { targetPosition: { x: 120, y: 120 } });
  await entry("save").dragTo(canvas, { targetPosition: { x: 520, y: 120 } });
  const handle = (id: string, kind: string) => card(id).locator(`.react-flow__handle.${kind}`);
  await drag(handle("scan_1", "source"), handle("save_1", "target"));
  await expect.poll(queues).toEqual(["flow.attach(scan_1, save_1)"]);
  await card("scan_1").click();
  await page.getByLabel("path needed").fill("in/*.parquet");
  await card("save_1").click();
  await page.getByLabel("path needed").fill("out.parquet");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByLabel("Path, beneath the root").fill("copy.json");
  await page.getByRole("dialog").getByRole("button", { name: "Save", exact: true }).click();
  await expect.poll(() => server.files.get("copy.json")).toContain("in/*.parquet");
  await page.getByRole("button", { name: "▶ Run" }).click();
  await expect.poll(() => server.runs.length).toBe(1);
  await page.locator(".run-head").waitFor();
  for (let step = 0; step < STEPS_MAX; step += 1) server.step();
  await page.locator(".report").waitFor();
});

test("the copy flow is built by keyboard alone, saved, and run", async () => {
  const press = (keys: string) => page.keyboard.press(keys);
  await press("/");
  await page.keyboard.type("scan");
  await press("Enter");
  await press("Control+A");
  await page.keyboard.type("save");
  await press("Enter");
  await expect.poll(queues).toEqual(["flow.attach(scan_1, save_1)"]);
  for (const [id, path] of [
    ["scan_1", "in.csv"],
    ["save_1", "out.csv"],
  ] as const) {
    await tabTo(card(id).and(page.locator(":focus")));
    await press("Enter");
    await tabTo(page.getByLabel("path needed").and(page.locator(":focus")));
    await page.keyboard.type(path);
  }
  await expect.poll(code).toContain('eu.save("out.csv")');
  await press("Control+s");
  await tabTo(page.getByLabel("Path, beneath the root").and(page.locator(":focus")));
  await press("Control+A");
  await page.keyboard.type("keys.json");
  await press("Enter");
  await expect.poll(() => server.files.get("keys.json")).toContain("out.csv");
  await press("Control+Enter");
  await expect.poll(() => server.runs.length).toBe(1);
  await page.locator(".run-head").waitFor();
  await press("Control+.");
  await expect.poll(() => page.locator(".run-head").textContent()).toContain("stopped");
});

/** Goes on by Tab until this has the focus; not for ever. */
async function tabTo(focused: ReturnType<typeof card>): Promise<void> {
  for (let tabs = 0; tabs < 200; tabs += 1) {
    if ((await focused.count()) > 0) return;
    await page.keyboard.press("Tab");
  }
  throw new Error("it cannot be reached by Tab");
}

test("twenty edits are undone, and done again", async () => {
  const states = [await code()];
  const edited = async (edit: () => Promise<void>) => {
    await edit();
    await expect.poll(code).not.toBe(states.at(-1));
    states.push(await code());
  };
  const names = ["scan", "filter", "project", "sort", "limit", "sample", "count", "collect"];
  for (const name of names) {
    await edited(async () => {
      await page.getByLabel("Find a module").fill(name);
      await page.keyboard.press("Enter");
    });
  }
  for (const name of names.slice(0, 7)) {
    await card(`${name}_1`).focus();
    await page.keyboard.press("Enter");
    await edited(async () => {
      await page.getByLabel("Name", { exact: true }).fill(`my_${name}`);
      await page.keyboard.press("Enter");
    });
  }
  for (const name of names.slice(0, 5)) {
    await card(`my_${name}`).focus();
    await page.keyboard.press("Enter");
    await edited(() => page.keyboard.press("Delete"));
  }
  expect(states.length).toBe(21);
  await page.locator("h1").click();
  for (const state of states.slice(0, -1).reverse()) {
    await page.keyboard.press("Control+z");
    await expect.poll(code).toBe(state);
  }
  for (const state of states.slice(1)) {
    await page.keyboard.press("Control+y");
    await expect.poll(code).toBe(state);
  }
});

test("only what changes is drawn again while a run is watched", async () => {
  const ids = Array.from({ length: 200 }, (_, i) => `m${i}`);
  const modules = ids.map((id, i) => ({ id, module: "filter", count: i < 20 ? 4 : 1 }));
  const lines = ids.slice(1).map((to, i) => ({ from: `m${i}`, to }));
  const large = { euphrates: 1, name: "large", modules, queues: lines };
  server.change("large.json", JSON.stringify(large));
  await page.getByRole("tab", { name: "Files" }).click();
  await entry("large.json").click();
  await expect.poll(() => page.locator(".react-flow__node").count()).toBe(200);
  await page.getByRole("button", { name: "▶ Run" }).click();
  await page.locator(".run-head").waitFor();
  for (let step = 0; step < 5; step += 1) server.step();
  await expect.poll(() => page.locator(".run-head").textContent()).toContain("1.25 s");
  const drawn = await watchDrawing({ attributes: true });
  server.step();
  await expect.poll(() => page.locator(".run-head").textContent()).toContain("1.50 s");
  const seen = await drawn();
  const others = seen.filter((one) => Number(one.replace(/\D/g, "")) >= 20);
  expect(others).toEqual([]);
  expect(seen.some((one) => one.startsWith("card"))).toBe(true);
  expect(seen.some((one) => one.startsWith("line"))).toBe(true);
});

test.each(["light", "dark"])(
  "a program finds nothing serious to complain of when it is %s",
  async (theme) => {
    const axe = readFileSync("node_modules/axe-core/axe.min.js", "utf8");
    await page.getByLabel("Colours").selectOption(theme);
    await page.evaluate(axe);
    const complaints = async () => {
      const results = await page.evaluate(() => {
        return (window as unknown as { axe: { run: () => Promise<AxeResults> } }).axe.run();
      });
      return results.violations
        .filter(({ impact }) => impact === "serious" || impact === "critical")
        .map(
          ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(" | ")}`,
        );
    };
    expect(await complaints()).toEqual([]);
    await page.getByRole("button", { name: "New…" }).click();
    expect(await complaints()).toEqual([]);
    await page.getByRole("button", { name: /^A slow consumer/ }).click();
    await card("work").click();
    await expect.poll(() => page.getByLabel("Columns for columns").count()).toBe(1);
    expect(await complaints()).toEqual([]);
    await page.getByRole("button", { name: "Run with…" }).click();
    expect(await complaints()).toEqual([]);
    await page.getByRole("dialog").getByRole("button", { name: "Run" }).click();
    await page.locator(".run-head").waitFor();
    for (let step = 0; step < 6; step += 1) server.step();
    await page.locator(".live").first().waitFor();
    expect(await complaints()).toEqual([]);
    for (const tab of ["Instances and workers", "Rows", "Log"]) {
      await page.getByRole("tab", { name: tab }).click();
      expect(await complaints()).toEqual([]);
    }
    await page.getByRole("button", { name: "Slow something…" }).click();
    expect(await complaints()).toEqual([]);
    await page.getByText("Not now").click();
    await page.getByRole("tab", { name: "Runs" }).click();
    for (let step = 0; step < STEPS_MAX; step += 1) server.step();
    await page.locator(".report").waitFor();
    expect(await complaints()).toEqual([]);
    expect((await middleOf(page.locator(".report"))).y).toBeGreaterThan(0);
  },
);
