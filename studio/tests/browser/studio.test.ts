// The studio without a server, in Chromium: by mouse, by keyboard, by code.

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import {
  card,
  code,
  drag,
  inBrowser,
  middleOf,
  page,
  queues,
  watchRendering,
  writeCode,
} from "./page";

inBrowser();

const LINE = `
flow = eu.Flow("line")
scan_1 = flow.place(eu.scan("a.csv"))
filter_1 = flow.place(eu.filter("a > 1"))
save_1 = flow.place(eu.save("b.csv"))
flow.attach(scan_1, filter_1)
flow.attach(filter_1, save_1)
`;

async function add(...modules: string[]): Promise<void> {
  for (const module of modules) {
    await page.getByLabel("Find a module").fill(module);
    await page.keyboard.press("Enter");
  }
}

test("a flow is built by keyboard alone", async () => {
  await page.keyboard.press("/");
  await page.keyboard.type("scan");
  await page.keyboard.press("Enter");
  await add("filter", "save");
  await expect
    .poll(queues)
    .toEqual(["flow.attach(scan_1, filter_1)", "flow.attach(filter_1, save_1)"]);
  await page.locator("h1").click();
  await page.keyboard.press("F2");
  await page.keyboard.type("target");
  await page.keyboard.press("Enter");
  await expect.poll(code).toContain('flow.place(eu.module("save"), id="target")');
  await card("target").focus();
  await page.keyboard.press("Enter");
  await page.getByLabel("path required").fill("out.csv");
  await expect.poll(code).toContain('eu.save("out.csv")');
  await card("filter_1").focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Delete");
  await expect.poll(queues).toEqual([]);
  await card("scan_1").focus();
  await page.keyboard.press("Enter");
  await page.getByLabel("Attach to").focus();
  await page.getByLabel("Attach to").selectOption({ label: "target" });
  await expect.poll(queues).toEqual(["flow.attach(scan_1, target)"]);
});

test("the canvas follows the code and ignores invalid code", async () => {
  await writeCode(LINE);
  await expect.poll(() => page.locator(".react-flow__edge").count()).toBe(2);
  await writeCode(`${LINE}flow.place(eu.scna("x"))`);
  const problems = page.locator(".code .problems");
  expect(await problems.textContent()).toContain("line 9, column 15: `euphrates` has no `scna`");
  expect(await page.locator(".react-flow__node").count()).toBe(3);
  await page.getByText("Back to what is drawn").click();
  await expect.poll(code).not.toContain("scna");
});

test("a module dropped on a queue is spliced into it", async () => {
  await writeCode(LINE);
  const line = page.locator(".react-flow__edge").first();
  const { x, y } = await middleOf(line.locator("path").first());
  const canvas = await page.locator(".react-flow").boundingBox();
  const targetPosition = { x: x - (canvas?.x ?? 0), y: y - (canvas?.y ?? 0) };
  const entry = page.locator(".entry", { hasText: /^project/ });
  await entry.dragTo(page.locator(".react-flow"), { targetPosition, force: true });
  await expect
    .poll(queues)
    .toEqual([
      "flow.attach(scan_1, project_1)",
      "flow.attach(project_1, filter_1)",
      "flow.attach(filter_1, save_1)",
    ]);
});

test("queues are drawn by mouse; impossible ports fade and show the reason", async () => {
  await writeCode(`${LINE}count_1 = flow.place(eu.count())\ncollect_1 = flow.place(eu.collect())`);
  const handle = (id: string, kind: string) => card(id).locator(`.react-flow__handle.${kind}`);
  await page.getByRole("button", { name: "Fit View" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".react-flow__node").length === 5);
  await drag(handle("count_1", "source"), handle("collect_1", "target"));
  await expect.poll(queues).toContain("flow.attach(count_1, collect_1)");
  await drag(handle("save_1", "target"), handle("count_1", "source"), false);
  const port = card("scan_1").locator('.port[data-impossible="true"]');
  expect(await port.getAttribute("title")).toContain("place a `tee` between them");
  await page.mouse.up();
  expect(await page.locator(".refused").textContent()).toContain("output `out` is attached to");
});

test("an unattached module dragged onto a queue is spliced into it", async () => {
  await writeCode(`${LINE}flow.place(eu.count())`);
  const { x, y } = await middleOf(page.locator(".react-flow__edge").first());
  const from = await middleOf(card("count_1").locator(".card-name"));
  await page.mouse.move(from.x, from.y);
  await page.mouse.down();
  await page.mouse.move(x + 20, y + 40, { steps: 5 });
  await page.mouse.move(x, y, { steps: 5 });
  await page.mouse.up();
  await expect.poll(queues).toContain("flow.attach(count_1, filter_1)");
});

test("a module is spliced into a queue by keyboard", async () => {
  await writeCode(LINE);
  await page.locator(".react-flow__edge").first().focus();
  await page.keyboard.press("Enter");
  await page.getByLabel("Insert module").selectOption("count");
  await expect.poll(queues).toContain("flow.attach(count_1, filter_1)");
});

test("comments are kept, and a statement beside one of the flow is reported", async () => {
  await writeCode(`${LINE}# thanks`);
  expect(await page.locator(".passed-over").count()).toBe(0);
  await card("save_1").click();
  await page.getByLabel("path required").fill("c.csv");
  await expect.poll(code).toContain('eu.save("c.csv")');
  expect(await code()).toContain("# thanks");
  await writeCode(`${LINE}x = 1; flow.place(eu.count())`);
  expect(await page.locator(".passed-over").textContent()).toContain("line 9");
});

test("a flow is exported as a picture and as a script", async () => {
  await writeCode(LINE);
  await card("save_1").waitFor();
  const exported = async (title: string) => {
    await page.getByRole("button", { name: "Export…" }).click();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.locator(".template", { hasText: title }).click(),
    ]);
    const path = await download.path();
    return [download.suggestedFilename(), readFileSync(path, "utf8")] as const;
  };
  const [name, script] = await exported("Python script");
  expect([name, script]).toEqual(["line.py", await code()]);
  const [picture, svg] = await exported("Picture");
  expect([picture, svg.split("<g transform").length - 1]).toEqual(["line.svg", 3]);
  const isImage = await page.evaluate(async (svg) => {
    const parsed = new DOMParser().parseFromString(svg, "image/svg+xml");
    return parsed.querySelector("parsererror") === null;
  }, svg);
  expect(isImage).toBe(true);
});

test("forms show problems and take values from variables", async () => {
  await add("generate");
  expect(await page.locator("main .problems").textContent()).toContain("missing field `what`");
  await page.getByLabel("what required").selectOption("integers");
  await page.getByLabel("rows", { exact: true }).fill("1000");
  const many = page.getByLabel("Instances", { exact: true });
  await many.fill("two");
  expect(await many.getAttribute("aria-invalid")).toBe("true");
  await many.fill("99999999");
  expect(await page.locator("main .problems").textContent()).toContain("instances are too many");
  await many.fill("");
  await expect.poll(code).toContain('eu.generate("integers", rows=1000)');
  const rows = page.locator(".field", { has: page.getByLabel("rows", { exact: true }) });
  await rows.getByRole("button", { name: "$" }).click();
  await page.keyboard.press("Enter");
  await expect.poll(code).toContain('flow.variable("rows", default=1000)');
  await expect.poll(code).toContain('eu.generate("integers", rows=eu.var("rows"))');
  await page.locator(".react-flow__pane").click({ position: { x: 20, y: 20 } });
  const given = page.getByLabel("Default");
  await given.fill("many");
  await expect.poll(code).toContain('flow.variable("rows", default="many")');
  await given.fill("1000");
  await expect.poll(code).toContain('flow.variable("rows", default=1000)');
  await page.getByText("generate_1.rows").click();
  await page.getByRole("button", { name: "$rows ×" }).click();
  await expect.poll(code).toContain('eu.generate("integers", rows=1000)');
});

test("everything is undone and redone, and survives a reload", async () => {
  await writeCode(LINE);
  const before = await queues();
  const { x, y } = await middleOf(card("filter_1"));
  await page.mouse.move(x, y - 12);
  await page.mouse.down();
  await page.mouse.move(x + 30, y + 90, { steps: 6 });
  await page.mouse.up();
  await card("save_1").click();
  await page.keyboard.press("Control+c");
  await page.keyboard.press("Control+v");
  await expect.poll(() => page.locator(".react-flow__node").count()).toBe(4);
  await page.keyboard.press("Delete");
  await page.keyboard.press("Control+z");
  await expect.poll(() => page.locator(".react-flow__node").count()).toBe(4);
  const undo = page.getByRole("button", { name: "Undo" });
  while (await undo.isEnabled()) await undo.click();
  await expect.poll(() => page.locator(".react-flow__node").count()).toBe(0);
  const redo = page.getByRole("button", { name: "Redo" });
  while (await redo.isEnabled()) await redo.click();
  await expect.poll(() => page.locator(".react-flow__node").count()).toBe(3);
  await page.keyboard.press("Control+z");
  await page.keyboard.press("Control+z");
  await expect.poll(() => page.locator(".react-flow__node").count()).toBe(3);
  await page.reload();
  await expect.poll(() => page.locator(".react-flow__node").count()).toBe(3);
  await expect.poll(queues).toEqual(before);
});

const flows = import.meta.glob<string>("../flows/*.json", {
  query: "?raw",
  import: "default",
  eager: true,
});

const BROKEN = `{"euphrates": 9, "name": "broken", "colour": "red", "modules": [
  {"id": "a", "module": "scan", "count": "three", "config": {"path": [1], "x": {"$var": "y"}}},
  {"id": "a", "module": "scan"}, {"id": "a", "module": "scan"}, 7,
  {"id": "b", "module": "of_tomorrow"}],
  "queues": [{"from": "a", "to": "gone"}, {"from": "a", "to": "b"`;

test("a broken flow opens in part, reports that, and keeps the rest", async () => {
  await page.evaluate((text) => sessionStorage.setItem("draft", text), BROKEN);
  await page.addInitScript(() => {
    localStorage.setItem("euphrates.draft", sessionStorage.getItem("draft") ?? "");
  });
  await page.reload();
  await expect.poll(() => page.locator(".react-flow__node").count()).toBe(2);
  const problems = await page.locator("main .problems").textContent();
  expect(problems).toContain("the flow is of version 9");
  expect(problems).toContain("two modules have the id `a`");
  expect(problems).toContain("no variable named `y`");
  await page.getByRole("tab", { name: "JSON" }).click();
  const json = await page.getByLabel("The flow in JSON").inputValue();
  expect(json).toContain('"colour": "red"');
  expect(json).toContain('"count": "three"');
  await page.getByLabel("The flow in JSON").fill(json.replace('"three"', "3"));
  await page.getByRole("tab", { name: "Python" }).click();
  await expect.poll(code).toContain("count=3");
});

test("hostile flows are drawn and selected without harm", async () => {
  for (const text of Object.values(flows)) {
    await page.evaluate((text) => sessionStorage.setItem("draft", text), text);
    await page.addInitScript(() => {
      localStorage.setItem("euphrates.draft", sessionStorage.getItem("draft") ?? "");
    });
    await page.reload();
    const { modules, queues } = JSON.parse(text) as { modules: unknown[]; queues: unknown[] };
    await expect.poll(() => page.locator(".react-flow__node").count()).toBe(modules.length);
    expect(await page.locator(".react-flow__edge").count()).toBeLessThanOrEqual(queues.length);
    for (const one of await page.locator(".react-flow__node").all()) {
      await one.waitFor();
      await one.focus();
      await page.keyboard.press("Enter");
      await page.getByLabel("Name", { exact: true }).focus();
    }
    expect(await page.locator(".rescue").count()).toBe(0);
    expect(await page.locator("script").count()).toBe(1);
  }
});

test("the theme can be light or dark", async () => {
  const background = () =>
    page.evaluate(() => getComputedStyle(document.body).getPropertyValue("background-color"));
  await page.getByLabel("Colours").selectOption("light");
  const light = await background();
  await page.getByLabel("Colours").selectOption("dark");
  expect(await background()).not.toBe(light);
});

test("an edit among two hundred modules re-renders one node", async () => {
  const names = Array.from({ length: 200 }, (_, i) => `m${i}`);
  const placed = names.map((name) => `${name} = flow.place(eu.filter("a > 1"), id="${name}")`);
  const attached = names.slice(1).map((name, i) => `flow.attach(m${i}, ${name})`);
  await writeCode(['flow = eu.Flow("large")', ...placed, ...attached].join("\n"));
  await card("m0").focus();
  await page.keyboard.press("Enter");
  const drawn = await watchRendering();
  await page.getByLabel("where required").fill("b > 2");
  await expect.poll(code).toContain('eu.filter("b > 2")');
  const cards = (await drawn()).filter((one) => one.startsWith("card"));
  expect(cards).toEqual(["card m0"]);
});
