// The page from a large screen to a phone: the canvas comes first, and Run and Stop stay visible.

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { accessibilityViolations, button, card, page } from "./page";
import { server, startRun, steps, withScriptedServer } from "./scriptedFixture";

withScriptedServer();

const SIZES = [
  { width: 1440, height: 900 },
  { width: 1024, height: 768 },
  { width: 700, height: 900 },
  { width: 420, height: 800 },
];

/** The folder for pictures, if they are wanted. */
const FOLDER = process.env.STUDIO_PICTURES;

async function picture(name: string): Promise<void> {
  if (FOLDER !== undefined) await page.screenshot({ path: `${FOLDER}/size-${name}.png` });
}

/** Opens a flow after the one that the page begins with, and loads the page again. */
async function open(name: string, text: string): Promise<void> {
  server.change(name, text);
  await card("filter_1").waitFor();
  await page.goto(page.url().replace(/#.*/, `#/file/${name}`));
  await page.reload();
}

/** A button of the toolbar, by the panel that it opens. */
const panelButton = (name: string) => page.getByRole("button", { name: `Panel: ${name}` });

test.each(SIZES)("at $width pixels everything can be reached", async (size) => {
  const { width, height } = size;
  await page.setViewportSize(size);
  await open("join.json", readFileSync("gallery/join.json", "utf8"));
  await card("join_1").waitFor();
  for (const theme of ["light", "dark"]) {
    await page.evaluate((theme) => {
      document.documentElement.dataset.theme = theme;
    }, theme);
    expect(await accessibilityViolations()).toEqual([]);
    await picture(`${width}-${theme}`);
  }
  for (const name of ["▶ Run", "■ Stop"]) {
    const box = await button(name).boundingBox();
    expect((box?.x ?? width) + (box?.width ?? 0)).toBeLessThanOrEqual(width);
  }
  const canvas = await page.locator(".react-flow").boundingBox();
  expect(canvas?.width).toBeGreaterThan(width * 0.4);
  expect(canvas?.height).toBeGreaterThan(height * 0.4);
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(overflow).toBeLessThanOrEqual(width);
  if (width >= 900) return;
  if (width <= 720) await button("Menu").click();
  for (const [name, panel] of [
    ["Modules", ".sidebar"],
    ["Details", ".side"],
  ] as const) {
    await panelButton(name).click();
    await page.locator(panel).waitFor();
    await picture(`${width}-${name}`);
    await panelButton(name).click();
    expect(await page.locator(panel).isVisible()).toBe(false);
  }
});

test.each([SIZES[0], SIZES[3]])(
  "at $width pixels the bar, the map and the buttons cover no module",
  async (size) => {
    await page.setViewportSize(size ?? { width: 0, height: 0 });
    const ids = Array.from({ length: 50 }, (_, i) => `m${i}`);
    const modules = ids.map((id) => ({ id, module: "filter", config: { where: "a > 1" } }));
    const queues = ids.slice(1).map((to, i) => ({ from: `m${i}`, to }));
    await open("long.json", JSON.stringify({ euphrates: 1, name: "long", modules, queues }));
    await expect.poll(() => page.locator(".react-flow__node").count()).toBe(50);
    await page.locator(".react-flow__minimap").waitFor();
    await button("Fit View").click();
    await page.waitForTimeout(400);
    await picture(`${size?.width}-long`);
    const canvas = await page.locator(".react-flow").boundingBox();
    const cards = await Promise.all(ids.map((id) => card(id).boundingBox()));
    const [tops, bottoms] = [
      cards.map((box) => box?.y ?? 0),
      cards.map((box) => (box?.y ?? 0) + (box?.height ?? 0)),
    ];
    const used = Math.max(...bottoms) - Math.min(...tops);
    expect(used).toBeGreaterThan((canvas?.height ?? 0) * 0.6);
    const map = await page.locator(".react-flow__minimap").boundingBox();
    expect(map?.y).toBeGreaterThanOrEqual((canvas?.y ?? 0) + (canvas?.height ?? 0));
  },
);

test("a page that becomes narrow closes its panels, which would lie over each other", async () => {
  await page.setViewportSize({ width: 1024, height: 768 });
  const panels = () =>
    Promise.all([".sidebar", ".side"].map((panel) => page.locator(panel).isVisible()));
  await expect.poll(panels).toEqual([true, true]);
  await page.setViewportSize({ width: 700, height: 768 });
  await expect.poll(panels).toEqual([false, false]);
  await page.setViewportSize({ width: 1024, height: 768 });
  await expect.poll(panels).toEqual([true, true]);
  await panelButton("Modules").click();
  await page.setViewportSize({ width: 700, height: 768 });
  await expect.poll(panels).toEqual([false, false]);
  await page.setViewportSize({ width: 1024, height: 768 });
  await expect.poll(panels).toEqual([false, true]);
});

test("zoomed out, the bar of a running module lies below its name", async () => {
  await startRun();
  await steps(2);
  while (!(await page.locator(".canvas.far").isVisible())) {
    const before = await page.locator(".zoom").textContent();
    await button("Zoom Out").click();
    await expect.poll(() => page.locator(".zoom").textContent()).not.toBe(before);
  }
  await picture("far");
  const bounds = async (what: string) => card("filter_1").locator(what).boundingBox();
  const [name, bar, whole] = [
    await bounds(".card-name"),
    await bounds(".time-bar"),
    await bounds(".card"),
  ];
  expect(bar?.y).toBeGreaterThanOrEqual((name?.y ?? 0) + (name?.height ?? 0));
  const end = (bar?.y ?? 0) + (bar?.height ?? 0);
  expect(end).toBeLessThan((whole?.y ?? 0) + (whole?.height ?? 0));
});
