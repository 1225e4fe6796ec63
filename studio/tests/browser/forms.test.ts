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

afterEach(() => forgive("503", "409"));

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
