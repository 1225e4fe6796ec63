// Editing in Chromium: undo, selection, re-rendering and accessibility.

import { expect, test } from "vitest";
import {
  accessibilityViolations,
  card,
  code,
  entry,
  inBrowser,
  middleOf,
  page,
  watchRendering,
} from "./page";
import { STEPS_MAX } from "./scriptedRun";
import { ScriptedServer } from "./scriptedServer";

let server: ScriptedServer;

inBrowser(() => {
  server = new ScriptedServer();
  return server;
});

test("twenty edits are undone and redone", async () => {
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

test("selection is right when keys arrive before the next frame", async () => {
  for (const name of ["scan", "count"]) {
    await page.getByLabel("Find a module").fill(name);
    await page.keyboard.press("Enter");
    await card(`${name}_1`).waitFor();
  }
  await card("scan_1").click();
  await page.getByLabel("Name", { exact: true }).waitFor();
  // Within one task of the browser, so that no frame is drawn in between.
  await page.evaluate(async () => {
    const focused = (selector: string) => {
      const found = document.querySelector<HTMLElement>(selector);
      found?.focus();
      return found;
    };
    const name = focused("#name");
    if (name instanceof HTMLInputElement) name.value = "first";
    name?.blur();
    await Promise.resolve();
    const other = focused('.react-flow__node[data-id="count_1"]');
    other?.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
  });
  await expect.poll(code).toContain("first = ");
  await expect.poll(() => page.locator(".react-flow__node.selected").count()).toBe(1);
  expect(await page.getByLabel("Name", { exact: true }).inputValue()).toBe("count_1");
});

test("watching a run re-renders only changed nodes and edges", async () => {
  const ids = Array.from({ length: 200 }, (_, i) => `m${i}`);
  const modules = ids.map((id, i) => ({ id, module: "filter", count: i < 20 ? 4 : 1 }));
  const lines = ids.slice(1).map((to, i) => ({ from: `m${i}`, to }));
  const at = (i: number) => [(i % 20) * 260, Math.floor(i / 20) * 150];
  const layout = { positions: Object.fromEntries(ids.map((id, i) => [id, at(i)])) };
  const large = { euphrates: 1, name: "large", modules, queues: lines, layout };
  server.change("large.json", JSON.stringify(large));
  await page.getByRole("tab", { name: "Files" }).click();
  await entry("large.json").click();
  await expect.poll(() => page.locator(".react-flow__node").count()).toBe(200);
  await page.getByRole("button", { name: "▶ Run" }).click();
  await page.locator(".run-head").waitFor();
  for (let step = 0; step < 5; step += 1) server.step();
  await expect.poll(() => page.locator(".run-head").textContent()).toContain("1.25 s");
  // A large flow is published over several frames.
  await expect.poll(() => page.locator(".live").count()).toBe(200);
  await expect.poll(() => page.locator(".queue[data-level]").count()).toBe(199);
  // From a distance, a card is an area whose colour rarely changes.
  const closer = page.getByRole("button", { name: "Zoom In" });
  const distant = page.locator(".canvas.distant");
  for (let times = 0; times < 4 && (await distant.count()) > 0; times += 1) await closer.click();
  await expect.poll(() => distant.count()).toBe(0);
  const drawn = await watchRendering({ attributes: true });
  server.step();
  await expect.poll(() => page.locator(".run-head").textContent()).toContain("1.50 s");
  const seen = await drawn();
  const others = seen.filter((one) => Number(one.replace(/\D/g, "")) >= 20);
  expect(others).toEqual([]);
  expect(seen.some((one) => one.startsWith("card"))).toBe(true);
  expect(seen.some((one) => one.startsWith("line"))).toBe(true);
  // Zoomed in, figures are drawn for visible nodes only.
  for (let times = 0; times < 8; times += 1) await closer.click();
  const figures = page.locator(".live-word");
  await expect.poll(() => figures.count()).toBeGreaterThan(0);
  await expect.poll(() => figures.count()).toBeLessThan(200);
});

test.each(["light", "dark"])(
  "the %s theme has no serious accessibility violations",
  async (theme) => {
    await page.getByLabel("Colours").selectOption(theme);
    expect(await accessibilityViolations()).toEqual([]);
    await page.getByRole("button", { name: "New…" }).click();
    expect(await accessibilityViolations()).toEqual([]);
    await page.getByRole("button", { name: /^A slow consumer/ }).click();
    await card("work").click();
    await expect.poll(() => page.getByLabel("Columns for columns").count()).toBe(1);
    expect(await accessibilityViolations()).toEqual([]);
    await page.getByRole("button", { name: "Run with…" }).click();
    expect(await accessibilityViolations()).toEqual([]);
    await page.getByRole("dialog").getByRole("button", { name: "Run" }).click();
    await page.locator(".run-head").waitFor();
    for (let step = 0; step < 6; step += 1) server.step();
    await page.locator(".live").first().waitFor();
    expect(await accessibilityViolations()).toEqual([]);
    for (const tab of ["Instances and workers", "Rows", "Log"]) {
      await page.getByRole("tab", { name: tab }).click();
      expect(await accessibilityViolations()).toEqual([]);
    }
    await page.getByRole("button", { name: "Slow something…" }).click();
    expect(await accessibilityViolations()).toEqual([]);
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await page.getByRole("tab", { name: "Runs" }).click();
    for (let step = 0; step < STEPS_MAX; step += 1) server.step();
    await page.locator(".report").waitFor();
    expect(await accessibilityViolations()).toEqual([]);
    expect((await middleOf(page.locator(".report"))).y).toBeGreaterThan(0);
  },
);
