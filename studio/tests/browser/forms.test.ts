// Forms with the real server: problems below their options, the focus, and names of columns.

import { afterEach, expect, test } from "vitest";
import { button, card, entry, forgive, inBrowser, page } from "./page";
import { RealServer } from "./realServer";

let server: RealServer;

inBrowser(() => {
  server = new RealServer();
  server.write("in.csv", "id,order,Unit price,Stadt\n1,2,3.5,Ur\n2,3,4.5,Uruk\n");
  return server;
});

afterEach(() => forgive("503", "409", "404"));

const where = () => page.getByLabel("where required");
const form = () => page.getByRole("complementary", { name: "Details" });

/** Places the file and a filter behind it. */
async function placeFilter(): Promise<void> {
  await page.getByRole("tab", { name: "Files" }).click();
  await page.locator(".entry", { hasText: "in.csv" }).click();
  await button("Add to the flow").click();
  await page.getByRole("tab", { name: "Modules" }).click();
  await entry("filter").dblclick();
  await page.getByRole("group", { name: "Columns for where" }).waitFor();
}

test("a problem below an option keeps its lines and has its remedy", async () => {
  await placeFilter();
  await where().fill("idd > 1");
  const wrong = form().locator(".wrong-text");
  await expect.poll(() => wrong.textContent()).toContain("no column named `idd`");
  const excerpt = wrong.locator(".excerpt");
  expect((await excerpt.textContent())?.split("\n")).toEqual(["    idd > 1", "    ^"]);
  expect(await excerpt.evaluate((lines) => getComputedStyle(lines).whiteSpace)).toContain("pre");
  expect(await wrong.locator(".remedy").textContent()).toContain("`id`");
});

test("columns are inserted as expressions need their names", async () => {
  await placeFilter();
  const columns = page.getByRole("group", { name: "Columns for where" });
  const take = (name: string) => columns.getByRole("button", { name, exact: true }).click();
  await take("id");
  await where().pressSequentially(" + ");
  await take("order");
  await where().pressSequentially(" + ");
  await take("Unit price");
  await where().pressSequentially(" > 1 and ");
  await take("Stadt");
  await where().pressSequentially(" = 'Ur'");
  expect(await where().inputValue()).toBe(`id + "order" + "Unit price" > 1 and "Stadt" = 'Ur'`);
  await entry("collect").dblclick();
  await expect.poll(() => page.locator(".dock").textContent()).toContain("No problems.");
});

test("a form begins at its top when another module is selected", async () => {
  await placeFilter();
  await card("scan_1").click();
  await form().evaluate((form) => form.scrollTo(0, form.scrollHeight));
  expect(await form().evaluate((form) => form.scrollTop)).toBeGreaterThan(100);
  await card("filter_1").click();
  await where().waitFor();
  expect(await form().evaluate((form) => form.scrollTop)).toBe(0);
  expect(await page.getByLabel("Name", { exact: true }).isVisible()).toBe(true);
});

test("a problem leads to the field of its option", async () => {
  await placeFilter();
  await where().fill("idd > 1");
  await entry("collect").dblclick();
  const problem = page.locator(".problems .link", { hasText: "no column named `idd`" });
  await problem.click();
  await expect.poll(() => where().evaluate((field) => field === document.activeElement)).toBe(true);
  await card("scan_1").click();
  await page.setViewportSize({ width: 700, height: 800 });
  await expect.poll(() => page.locator(".side").isVisible()).toBe(false);
  await problem.click();
  await expect.poll(() => where().evaluate((field) => field === document.activeElement)).toBe(true);
});

test("a preview without rows says what to do, and is no error", async () => {
  await placeFilter();
  await where().fill("id > 100");
  await entry("collect").dblclick();
  await page.locator(".react-flow__edge").last().click();
  await button("Preview rows").click();
  const dialog = page.getByRole("dialog");
  await expect.poll(() => dialog.textContent()).toContain("look at the conditions before");
  expect(await dialog.locator(".wrong-text").count()).toBe(0);
  await page.keyboard.press("Escape");
  await button("▶ Run").click();
  await page.locator(".run-head", { hasText: "done" }).waitFor({ timeout: 90_000 });
  await page.getByRole("tab", { name: "Rows" }).click();
  await expect.poll(() => page.locator(".dock-page").textContent()).toContain("Preview rows");
  expect(await page.locator(".dock-page .wrong-text").count()).toBe(0);
});

test("a file with a value of another type is shown, with what becomes of the value", async () => {
  const rows = Array.from({ length: 60_000 }, (_, i) => `${i};${i === 50_000 ? "n/a" : i / 2}`);
  server.write("messy.csv", `id;amount\n${rows.join("\n")}\n`);
  await page.getByRole("tab", { name: "Files" }).click();
  await page.locator(".entry", { hasText: "messy.csv" }).click();
  const dialog = page.getByRole("dialog");
  const cells = () => dialog.locator("td").allTextContents();
  await expect.poll(async () => (await cells()).slice(0, 4)).toEqual(["0", "0.0", "1", "0.5"]);
  expect(await dialog.getByRole("alert").textContent()).toContain("`n/a` does not fit");
  expect(await dialog.getByRole("alert").textContent()).toContain("on_error");
  await button("Add to the flow").click();
  await page.getByLabel("on_error", { exact: true }).selectOption("null");
  await page.getByRole("tab", { name: "Modules" }).click();
  await entry("filter").dblclick();
  await where().fill("id % 100 = 1");
  await entry("count").dblclick();
  await card("count_1").waitFor();
  await page.locator(".react-flow__edge").last().focus();
  await page.keyboard.press("Enter");
  await button("Preview rows").click();
  await expect.poll(async () => (await cells()).slice(0, 4)).toEqual(["1", "0.5", "101", "50.5"]);
});

test("Escape and Cancel close a dialog and return the focus", async () => {
  const opener = button("New…");
  const hasFocus = () => opener.evaluate((one) => one === document.activeElement);
  const dialog = page.getByRole("dialog");
  for (const close of [
    () => page.keyboard.press("Escape"),
    () => dialog.getByRole("button", { name: "Cancel" }).click(),
  ]) {
    await opener.focus();
    await page.keyboard.press("Enter");
    await dialog.waitFor();
    await close();
    await expect.poll(() => dialog.count()).toBe(0);
    await expect.poll(hasFocus).toBe(true);
  }
});

test("Escape closes the menu of a narrow page and the name of a variable", async () => {
  await placeFilter();
  const field = page.locator(".field", { has: where() });
  await field.getByRole("button", { name: "$" }).click();
  await page.getByLabel("Variable", { exact: true }).waitFor();
  await page.keyboard.press("Escape");
  expect(await page.getByLabel("Variable", { exact: true }).count()).toBe(0);
  const focused = () => page.evaluate(() => document.activeElement?.textContent);
  expect(await focused()).toBe("$");
  await page.setViewportSize({ width: 420, height: 800 });
  await button("Menu").click();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Escape");
  expect(await button("Menu").getAttribute("aria-expanded")).toBe("false");
  expect(await focused()).toBe("Menu");
});
