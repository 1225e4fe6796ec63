// Groups in Chromium: made, named, folded, moved and undone, by keyboard and by mouse.

import { expect, test } from "vitest";
import {
  accessibilityViolations,
  button,
  card,
  code,
  inBrowser,
  middleOf,
  page,
  writeCode,
} from "./page";

inBrowser();

const FLOW = `flow = eu.Flow("days")
scan_1 = flow.place(eu.scan("in.csv"))
filter_1 = flow.place(eu.filter("price > 5"))
sort_1 = flow.place(eu.sort("day"))
save_1 = flow.place(eu.save("out.parquet"))
flow.attach(scan_1, filter_1)
flow.attach(filter_1, sort_1)
flow.attach(sort_1, save_1)
`;

const box = () => page.locator(".react-flow__node-box");
const folded = () => page.locator(".react-flow__node-folded");

async function group(): Promise<string> {
  await writeCode(FLOW);
  await card("save_1").waitFor();
  await page.locator("h1").click();
  await expect.poll(code).toContain("__main__");
  const before = await code();
  await card("filter_1").click();
  await card("sort_1").click({ modifiers: ["Shift"] });
  await button("Group").first().click();
  await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe("group-name");
  await page.getByLabel("Title").fill("Clean");
  await page.getByLabel("Note").fill("Drops what was sold for less than 5.");
  return before;
}

test("a group is a titled box that folds to one card, and the program stays the same", async () => {
  const before = await group();
  expect(await box().textContent()).toContain("Drops what was sold");
  expect(await code()).toBe(before);
  await page.getByRole("button", { name: "Fold Clean" }).click();
  await expect.poll(() => folded().textContent()).toContain("2 modules");
  expect(await page.locator(".react-flow__node").count()).toBe(3);
  await expect.poll(() => page.locator(".react-flow__edge-path").count()).toBe(2);
  expect(await accessibilityViolations(page.locator(".canvas-area"))).toEqual([]);
  expect(await accessibilityViolations(page.locator(".inspector"))).toEqual([]);
  await page.getByRole("button", { name: "Unfold Clean" }).click();
  await card("sort_1").waitFor();
  await button("Ungroup").click();
  await expect.poll(() => box().count()).toBe(0);
  await page.locator("h1").click();
  for (let step = 0; step < 6; step += 1) await page.keyboard.press("Control+z");
  await expect.poll(() => box().count()).toBe(0);
  await page.keyboard.press("Control+y");
  await expect.poll(() => box().count()).toBe(1);
});

test("everything of a group works by keyboard", async () => {
  await writeCode(FLOW);
  await card("save_1").waitFor();
  await page.locator("h1").click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Control+g");
  await expect.poll(() => page.getByLabel("Title").inputValue()).toBe("Group 1");
  await box().focus();
  await page.keyboard.press("f");
  await expect.poll(() => folded().count()).toBe(1);
  await folded().focus();
  const { x } = await middleOf(folded());
  await page.keyboard.press("ArrowRight");
  await expect.poll(async () => (await middleOf(folded())).x).toBeGreaterThan(x);
  await page.keyboard.press("f");
  await expect.poll(() => box().count()).toBe(1);
  await page.keyboard.press("Control+Shift+G");
  await expect.poll(() => box().count()).toBe(0);
  expect(await page.locator(".react-flow__node").count()).toBe(4);
});

test("a dragged title takes the modules along, and a click on one selects it alone", async () => {
  await group();
  await page.locator("h1").click();
  const [before, other] = [await middleOf(card("sort_1")), await middleOf(card("save_1"))];
  const title = await middleOf(page.locator(".group-name"));
  await page.mouse.move(title.x, title.y);
  await page.mouse.down();
  await page.mouse.move(title.x + 20, title.y + 30, { steps: 4 });
  await page.mouse.move(title.x + 40, title.y + 90, { steps: 4 });
  await page.mouse.up();
  await expect.poll(async () => (await middleOf(card("sort_1"))).y).toBeGreaterThan(before.y + 60);
  const moved = (await middleOf(page.locator(".group-name"))).y - title.y;
  expect((await middleOf(card("sort_1"))).y - before.y).toBeCloseTo(moved, 0);
  expect(await middleOf(card("save_1"))).toEqual(other);
  await card("filter_1").click();
  await expect.poll(() => page.locator(".react-flow__node.selected").count()).toBe(1);
  expect(await page.getByLabel("Name", { exact: true }).inputValue()).toBe("filter_1");
  await page.keyboard.press("Control+z");
  await expect.poll(async () => (await middleOf(card("sort_1"))).y).toBeCloseTo(before.y, -1);
});
