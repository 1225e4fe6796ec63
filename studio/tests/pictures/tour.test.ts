// Records the front page's tour with a run of the real server: `npm run tour`.

import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { button, card, code, inBrowser, page } from "../browser/page";
import { RealServer } from "../browser/realServer";

const FOLDER = "pictures/tour";
/** Rows of the run, which decide its duration. */
const ROWS = process.env.STUDIO_TOUR_ROWS ?? "1600000000";

inBrowser(() => new RealServer());

/** A screenshot with its time and caption. */
interface Shot {
  readonly at: number;
  readonly scene: string;
  readonly image: Buffer;
}

const shots: Shot[] = [];
let scene = "";
let isOver = false;

async function record(): Promise<void> {
  while (!isOver) shots.push({ at: Date.now(), scene, image: await page.screenshot() });
}

/** Pauses so that a viewer can follow. */
const rest = (seconds: number) => page.waitForTimeout(seconds * 1000);

test("the tour", async () => {
  // Small, so that text stays legible when scaled down.
  await page.setViewportSize({ width: 1290, height: 760 });
  await page.getByLabel("Colours").selectOption("light");
  scene = "Begin with a flow, or draw one";
  const recorded = record();
  await button("New…").click();
  await rest(1.5);
  await page.getByRole("button", { name: /^A slow consumer/ }).click();
  await card("collect_1").waitFor();
  await card("work").click();
  scene = "Run it: every queue says what flows and how full it is, every module what it waits for";
  await button("Run with…").click();
  await page.getByLabel("rows", { exact: true }).fill(ROWS);
  await page.getByRole("dialog").getByRole("button", { name: "Run" }).click();
  await card("work").locator(".live").waitFor();
  await page.locator(".dock").getByRole("tab", { name: "Instances" }).click();
  await rest(1.5);
  scene = "Slow one instance of four: it is named, and the others take its work";
  await button("Slow something…").click();
  await page.getByLabel("Which", { exact: true }).selectOption("work.2");
  await rest(1);
  await button("Slow it").click();
  await expect.poll(() => page.locator(".run-head").textContent()).toContain("slow work.2");
  await rest(2);
  scene = "What is left of the run, four times as fast";
  await page.locator(".report").waitFor();
  scene = "The report: who was slow, since when, and how near it came to the best";
  await rest(3);
  scene = "Drawing and code are one: edit the code, and the drawing follows";
  await page.locator(".run-head").getByRole("button", { name: "Close" }).click();
  await rest(1);
  const lines = (await code()).split("\n");
  const at = lines.findIndex((line) => line.startsWith("flow.attach(generate_1"));
  const filter = 'even = flow.place(eu.filter("n % 2 = 0"), id="even")';
  const attached = ["flow.attach(generate_1, even)", "flow.attach(even, work)"];
  const edited = [...lines.slice(0, at), filter, ...attached, ...lines.slice(at + 1)];
  await page.getByLabel("The flow in Python").fill(edited.join("\n"));
  await card("even").waitFor();
  await button("Lay out").click();
  await button("Fit View").click();
  await rest(2.5);
  isOver = true;
  await recorded;
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  for (const [i, { image }] of shots.entries()) writeFileSync(`${FOLDER}/${i}.png`, image);
  writeFileSync(`${FOLDER}/shots.json`, JSON.stringify(shots.map(({ at, scene }) => [at, scene])));
});
