// What a new user does first, with a scripted server: data files, drops, menus, and a second run.

import { expect, test } from "vitest";
import {
  accessibilityViolations,
  button,
  card,
  code,
  entry,
  forgive,
  middleOf,
  page,
  writeCode,
} from "./page";
import { server, steps, withScriptedServer } from "./scriptedFixture";
import { STEPS_MAX } from "./scriptedRun";

withScriptedServer();

const canvas = () => page.locator(".react-flow");

async function newFlow(title = "An empty flow"): Promise<void> {
  await button("New…").click();
  await page.locator(".template", { hasText: title }).click();
}

/** The distance between a card's middle and a position of the canvas. */
async function distance(id: string, { x, y }: { x: number; y: number }): Promise<number> {
  const [middle, box] = [await middleOf(card(id)), await canvas().boundingBox()];
  return Math.hypot(middle.x - (box?.x ?? 0) - x, middle.y - (box?.y ?? 0) - y);
}

test("dropped modules land under the pointer", async () => {
  await newFlow();
  await expect.poll(() => page.locator(".react-flow__node").count()).toBe(0);
  const places = [
    { x: 150, y: 110 },
    { x: 420, y: 260 },
    { x: 12, y: 300 },
  ];
  for (const [i, targetPosition] of places.entries()) {
    await entry("scan").dragTo(canvas(), { targetPosition });
    await card(`scan_${i + 1}`).waitFor();
    expect(await distance(`scan_${i + 1}`, targetPosition)).toBeLessThan(16);
  }
  expect(await distance("scan_1", { x: 150, y: 110 })).toBeLessThan(16);
});

test("a data file dragged onto the canvas becomes a scan", async () => {
  server.change("in/people.csv", "id,name\n1,Ada\n");
  await newFlow();
  await page.getByRole("tab", { name: "Files" }).click();
  await entry("in/people.csv").dragTo(canvas(), { targetPosition: { x: 200, y: 150 } });
  await expect.poll(code).toContain('eu.scan("in/people.csv")');
  expect(await distance("scan_1", { x: 200, y: 150 })).toBeLessThan(16);
});

test("a template creates its example data, and never replaces a file", async () => {
  await newFlow("Clean, CSV to Parquet");
  await expect.poll(code).toContain('default="sales.csv"');
  expect(server.files.get("sales.csv")).toContain("name,city,amount,day");
  server.files.set("sales.csv", "mine");
  await newFlow("Copy");
  await expect.poll(code).toContain('eu.Flow("copy")');
  expect(server.files.get("sales.csv")).toBe("mine");
});

const SORT = `
flow = eu.Flow("sort")
scan_1 = flow.place(eu.scan("in.csv"))
sort_1 = flow.place(eu.module("sort"))
flow.attach(scan_1, sort_1)
`;

test("keys are chosen from the columns of the input while they are empty", async () => {
  await writeCode(SORT);
  await card("sort_1").click();
  await page.locator("select", { hasText: "Choose a column…" }).waitFor();
  await page.getByLabel("by required").selectOption("amount");
  await page.getByLabel("Order of by 1").selectOption("descending");
  await expect.poll(code).toContain('eu.sort(["amount desc"])');
  await page.getByLabel("by required").selectOption("name");
  await expect.poll(code).toContain('eu.sort(["amount desc", "name"])');
  await button("Remove by 1").click();
  await expect.poll(code).toContain('eu.sort(["name"])');
});

test("values of groups are written one a line, or as JSON", async () => {
  await writeCode(`
flow = eu.Flow("group")
scan_1 = flow.place(eu.scan("in.csv"))
aggregate_1 = flow.place(eu.aggregate(["name"]))
flow.attach(scan_1, aggregate_1)
`);
  await card("aggregate_1").click();
  const values = page.getByLabel("values", { exact: true });
  await values.fill("total = sum(amount)\nn");
  expect(await values.getAttribute("aria-invalid")).toBe("true");
  await values.fill("total = sum(amount)\nlarge = count_if(amount >= 5)");
  const wanted = 'values={"total": "sum(amount)", "large": "count_if(amount >= 5)"}';
  await expect.poll(async () => (await code()).replace(/\s+/g, " ")).toContain(wanted);
  await values.fill('{"n": "count()"}');
  await expect.poll(code).toContain('values={"n": "count()"}');
  await card("scan_1").click();
  await card("aggregate_1").click();
  await expect.poll(() => values.inputValue()).toBe("n = count()");
});

test("columns are completed in a condition, by keyboard and by mouse", async () => {
  await card("filter_1").click();
  const where = page.getByLabel("where required");
  await page.getByLabel("Columns for where").waitFor();
  await where.fill("");
  await where.pressSequentially("am");
  const option = page.getByRole("option", { name: "amount" });
  await option.waitFor();
  expect(await accessibilityViolations(page.locator(".sql"))).toEqual([]);
  await page.keyboard.press("Tab");
  await page.keyboard.type(" > 1 and na");
  await page.getByRole("option", { name: "name" }).click();
  await page.keyboard.type(" is not nu");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await expect.poll(code).toContain('eu.filter("amount > 1 and name is not null")');
  await page.keyboard.type("i");
  await page.keyboard.press("Escape");
  expect(await page.getByRole("listbox").count()).toBe(0);
});

test("formats and switches are menus that name their default", async () => {
  await card("save_1").click();
  const formats = await page
    .getByLabel("format", { exact: true })
    .locator("option")
    .allTextContents();
  expect(formats).toEqual([
    "default",
    "parquet",
    "csv",
    "json_lines",
    "arrow_ipc",
    "records",
    "lines",
  ]);
  await page.getByLabel("format", { exact: true }).selectOption("csv");
  await expect.poll(code).toContain('format="csv"');
  const overwrite = page.getByLabel("overwrite", { exact: true });
  expect(await overwrite.locator("option").first().textContent()).toBe("default: off");
});

test("a run that would find its output asks whether to replace it", async () => {
  await expect.poll(() => page.locator(".react-flow__node").count()).toBe(3);
  server.change("out.parquet", "PAR1");
  await button("▶ Run").click();
  const dialog = page.getByRole("dialog", { name: "Replace output" });
  await expect.poll(() => dialog.textContent()).toContain("out.parquet");
  expect(server.runs.length).toBe(0);
  await dialog.getByText("Cancel").click();
  await expect.poll(() => dialog.count()).toBe(0);
  await button("▶ Run").click();
  await button("Replace output and run").click();
  await page.locator(".run-head").waitFor();
  expect(server.lastOf("POST runs")).toContain('"overwrite": true');
  expect(await code()).not.toContain("overwrite");
  expect(await page.locator(".run-head").textContent()).not.toContain("What ran");
  await steps(STEPS_MAX);
  await expect.poll(() => page.locator(".run-head").textContent()).toContain("done");
  await button("Run again").click();
  await expect.poll(() => dialog.textContent()).toContain("out.parquet");
  await dialog.getByText("Cancel").click();
  await button("Run with…").click();
  await page.getByLabel("Replace output of save_1 if it is there, in this run").check();
  await page.getByRole("dialog").getByRole("button", { name: "Run" }).click();
  await expect.poll(() => server.runs.length).toBe(2);
  expect(server.lastOf("POST runs")).toContain('"overwrite": true');
  expect(await code()).not.toContain("overwrite");
});

const SCRIPT = `import euphrates as eu


def other(batch):
    return batch


def tidy(batch):
    return batch
`;

test("the Python function of a module is edited and saved, unless it has changed", async () => {
  server.change("clean.py", SCRIPT);
  await writeCode(`
flow = eu.Flow("map")
scan_1 = flow.place(eu.scan("in.csv"))
map_1 = flow.place(eu.map("clean.py:tidy"))
flow.attach(scan_1, map_1)
`);
  await card("map_1").click();
  await button("Edit the code of tidy").click();
  const dialog = page.getByRole("dialog");
  const text = dialog.getByLabel("The script");
  await expect.poll(() => text.inputValue()).toBe(SCRIPT);
  expect(await accessibilityViolations(dialog)).toEqual([]);
  await text.fill(SCRIPT.replace("return batch", "return batch.drop_null()"));
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect.poll(() => server.files.get("clean.py")).toContain("drop_null");
  await expect.poll(() => dialog.count()).toBe(0);
  await button("Edit the code of tidy").click();
  await expect.poll(() => text.inputValue()).toContain("drop_null");
  server.change("clean.py", SCRIPT);
  await text.fill("mine");
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect.poll(() => dialog.textContent()).toContain("clean.py has changed");
  expect(server.files.get("clean.py")).toBe(SCRIPT);
  forgive("409");
});
