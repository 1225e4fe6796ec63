// What a new user does first, from an empty home, with the real server: only what is on the screen
// is used.

import { afterEach, expect, test } from "vitest";
import { button, card, code, entry, forgive, inBrowser, page } from "./page";
import { RealServer } from "./realServer";

let server: RealServer;

const ROWS = Array.from({ length: 400 }, (_, i) => {
  const day = `2026-01-${String((i % 28) + 1).padStart(2, "0")}`;
  return `${i},${i % 7 === 0 ? "" : `Name ${i}`},Ur,${(i * 37) % 211},${day}`;
});

inBrowser(() => {
  server = new RealServer();
  server.write("raw.csv", `id,name,city,amount,day\n${ROWS.join("\n")}\n`);
  return server;
});

// A check that a busy machine does not finish is repeated, and a preview may end as it is closed.
afterEach(() => forgive("503", "409"));

const problems = () => page.locator(".dock").getByRole("listitem").allTextContents();
const cells = () => page.locator(".preview-rows td").allTextContents();

test("a CSV file becomes a clean and sorted Parquet file", async () => {
  await page.getByRole("tab", { name: "Files" }).click();
  await page.locator(".entry", { hasText: "raw.csv" }).click();
  await button("Add to the flow").click();
  await page.getByRole("tab", { name: "Modules" }).click();
  await entry("filter").dblclick();
  await page.getByLabel("where required").pressSequentially("name is not null");
  await expect
    .poll(() => page.getByRole("group", { name: "Columns for where" }).textContent())
    .toContain("idnamecityamountday");
  const found = await problems();
  expect(new Set(found).size).toBe(found.length);
  await entry("sort").dblclick();
  await page.locator("select", { hasText: "Choose a column…" }).selectOption("amount");
  await entry("save").dblclick();
  await page.getByLabel("path required").pressSequentially("clean.parquet");
  await expect.poll(() => page.locator(".dock").textContent()).toContain("No problems.");
  await page.getByRole("button", { name: "▶ Run" }).click();
  await page.locator(".run-head", { hasText: "done" }).waitFor({ timeout: 90_000 });
  await page.getByRole("tab", { name: "Files" }).click();
  await page.locator(".entry", { hasText: "clean.parquet" }).click();
  await expect.poll(async () => (await cells()).length).toBe(500);
  const shown = await cells();
  const amounts = shown.filter((_, i) => i % 5 === 3).map(Number);
  expect(amounts).toEqual(amounts.toSorted((a, b) => a - b));
  expect(shown.filter((_, i) => i % 5 === 1)).not.toContain("null");
});

test("a template runs, and its result is seen", async () => {
  await button("New…").click();
  await page.getByRole("button", { name: /^Clean, CSV to Parquet/ }).click();
  await card("save_1").waitFor();
  await page.getByRole("button", { name: "▶ Run" }).click();
  await page.locator(".run-head", { hasText: "done" }).waitFor({ timeout: 90_000 });
  await page.getByRole("tab", { name: "Files" }).click();
  await page.locator(".entry", { hasText: "clean.parquet" }).click();
  await expect.poll(() => page.locator(".preview-rows").textContent()).toContain("with_tax");
});

test("a template asks before it replaces a file", async () => {
  server.write("clean.parquet", "a user's own");
  await button("New…").click();
  await page.getByRole("button", { name: /^Clean, CSV to Parquet/ }).click();
  await card("save_1").waitFor();
  await page.getByRole("button", { name: "▶ Run" }).click();
  await page.getByRole("dialog", { name: "Replace output" }).waitFor();
  await button("Replace output and run").click();
  await page.locator(".run-head", { hasText: "done" }).waitFor({ timeout: 90_000 });
});

test("a run that fails says where and why, and runs after it is mended", async () => {
  await page.getByRole("tab", { name: "Files" }).click();
  await page.locator(".entry", { hasText: "raw.csv" }).click();
  await button("Add to the flow").click();
  await page.getByRole("tab", { name: "Modules" }).click();
  await entry("project").dblclick();
  await page.getByLabel("columns required").fill("cast(name as int) as number");
  await entry("count").dblclick();
  await entry("collect").dblclick();
  await page.getByRole("button", { name: "▶ Run" }).click();
  await page.locator(".failure").waitFor();
  await expect.poll(() => page.locator(".failure").textContent()).toContain("Name 1");
  await page.locator(".failure").getByRole("button", { name: "project_1" }).click();
  await page.getByLabel("columns required").fill("name");
  await page.getByRole("button", { name: "▶ Run" }).click();
  await page.locator(".run-head", { hasText: "done" }).waitFor({ timeout: 90_000 });
});

/** Presses Tab until what has the focus has this text or label. */
async function tabTo(what: RegExp, key = "Tab"): Promise<void> {
  const focused = () =>
    page.evaluate(() => {
      const { activeElement: one } = document;
      const label =
        one instanceof HTMLElement ? one.closest(".field")?.querySelector("label") : null;
      return `${one?.tagName} ${label?.textContent ?? one?.textContent}`;
    });
  for (let presses = 0; presses < 90; presses += 1) {
    await page.keyboard.press(key);
    if (what.test(await focused())) return;
  }
  throw new Error(`${what} cannot be reached`);
}

/** Places a module behind the selected one, and goes to its form. */
async function place(module: string): Promise<void> {
  await page.keyboard.press("/");
  await page.keyboard.type(module);
  await page.keyboard.press("Enter");
  await card(`${module}_1`).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("F2");
}

test("by keyboard alone, a messy CSV file becomes a clean and sorted Parquet file", async () => {
  const messy = ROWS.map((row, i) => {
    return (i % 9 === 0 ? row.replace(/,\d+,/, ",n/a,") : row).replaceAll(",", ";");
  });
  const clean = Array.from({ length: 60_000 }, (_, i) => `${i};Name;Ur;${i / 2};2026-02-01`);
  const lines = ["id;Full name;city;amount;day", ...clean, ...messy];
  server.write("messy.csv", `${lines.join("\n")}\n`);
  await page.reload();
  await page.locator(".react-flow").waitFor();
  const { keyboard } = page;
  await tabTo(/^BUTTON Files$/);
  await keyboard.press("Enter");
  await tabTo(/^BUTTON messy\.csv/);
  await keyboard.press("Enter");
  await expect.poll(async () => (await cells()).slice(0, 3)).toEqual(["0", "Name", "Ur"]);
  await tabTo(/^BUTTON Add to the flow/);
  await keyboard.press("Enter");
  await keyboard.press("F2");
  await tabTo(/^SELECT on_error/);
  await keyboard.type("null");
  await keyboard.press("Escape");
  await place("filter");
  await tabTo(/^TEXTAREA where/);
  await page.getByRole("group", { name: "Columns for where" }).waitFor();
  await keyboard.type('amount is not null and "Full name" is not null');
  await keyboard.press("Escape");
  await place("sort");
  await page.locator("select", { hasText: "Choose a column…" }).waitFor();
  await tabTo(/^SELECT by/);
  await keyboard.type("am");
  await keyboard.press("Escape");
  await place("save");
  await tabTo(/^TEXTAREA path/);
  await keyboard.type("clean.parquet");
  await expect.poll(() => page.locator(".dock").textContent()).toContain("No problems.");
  await expect.poll(code).toContain('eu.sort(["amount"])');
  await keyboard.press("Control+Enter");
  await page.locator(".run-head", { hasText: "done" }).waitFor({ timeout: 90_000 });
  await tabTo(/^BUTTON Files$/, "Shift+Tab");
  await keyboard.press("Enter");
  await tabTo(/^BUTTON clean\.parquet/);
  await keyboard.press("Enter");
  await expect.poll(async () => (await cells()).length).toBe(500);
  const shown = await cells();
  const amounts = shown.filter((_, i) => i % 5 === 3).map(Number);
  expect(amounts).toEqual(amounts.toSorted((a, b) => a - b));
  expect(shown).not.toContain("null");
  await keyboard.press("Escape");
  await keyboard.press("Control+Enter");
  await page.getByRole("dialog", { name: "Replace output" }).waitFor();
  await expect.poll(() => page.getByRole("dialog").textContent()).toContain("clean.parquet");
  await tabTo(/^BUTTON Choose another path/);
  await keyboard.press("Enter");
  await keyboard.press("Control+A");
  await keyboard.type("other.parquet");
  await expect.poll(code).toContain('eu.save("other.parquet")');
});
