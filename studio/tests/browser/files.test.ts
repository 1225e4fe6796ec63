// Files with a scripted server: opening, saving, drafts, conflicts, scripts, checks.

import { expect, test } from "vitest";
import { button, card, code, forgive, page, writeCode } from "./page";
import { COPY, edit, server, startRun, withScriptedServer } from "./scriptedFixture";

withScriptedServer();

test("the initial flow is opened, edited and saved", async () => {
  await expect.poll(code).toContain('eu.Flow("copy")');
  await edit("amount > 9");
  await expect.poll(() => server.drafts.get("copy.json")).toContain("amount > 9");
  expect(server.files.get("copy.json")).toBe(COPY);
  await button("Save").click();
  await expect.poll(() => server.files.get("copy.json")).toContain("amount > 9");
  await expect.poll(() => server.drafts.size).toBe(0);
  expect(await page.locator("h1").textContent()).not.toContain("•");
});

test("an unsaved edit is restored after a reload and can be undone", async () => {
  await edit("amount > 9");
  await expect.poll(() => server.drafts.size).toBe(1);
  await page.reload();
  await expect.poll(code).toContain("amount > 9");
  expect(await page.locator(".notice").textContent()).toContain("undo returns");
  await button("Undo").click();
  await expect.poll(code).toContain("amount > 0");
});

test("a file changed by another writer is not overwritten without asking", async () => {
  await edit("amount > 9");
  server.change("copy.json", COPY.replace("amount > 0", "amount > 5"));
  await expect.poll(() => page.locator(".notice").count()).toBe(1);
  await button("Save").click();
  const dialog = page.getByRole("dialog", { name: /has changed/ });
  await dialog.waitFor();
  expect(server.files.get("copy.json")).toContain("amount > 5");
  await dialog.getByText("Cancel", { exact: true }).click();
  expect(server.files.get("copy.json")).toContain("amount > 5");
  await button("Save").click();
  await dialog.getByText("Keep mine").click();
  await expect.poll(() => server.files.get("copy.json")).toContain("amount > 9");
  forgive("409");
});

test("a file removed by another writer is created again by a second save", async () => {
  await edit("amount > 9");
  server.files.delete("copy.json");
  await button("Save").click();
  await expect.poll(() => page.locator(".refused").textContent()).toContain("has changed");
  expect(server.files.has("copy.json")).toBe(false);
  await button("Save").click();
  await expect.poll(() => server.files.get("copy.json")).toContain("amount > 9");
  forgive("409");
});

test("a changed file is reloaded if there are no unsaved edits", async () => {
  await expect.poll(code).toContain("amount > 0");
  server.change("copy.json", COPY.replace("amount > 0", "amount > 5"));
  await expect.poll(code).toContain("amount > 5");
});

test("a new flow is saved under the given path and not over another file", async () => {
  await button("New…").click();
  await page.getByRole("button", { name: /^An empty flow/ }).click();
  await writeCode('flow = eu.Flow("mine")\nflow.place(eu.scan("a.csv"))');
  await button("Save").click();
  await page.getByLabel("Path in the project").fill("other.json");
  await page.getByRole("dialog").getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("Save mine elsewhere…").click();
  const path = page.getByLabel("Path in the project");
  await path.fill("no/mine.json");
  await page.getByRole("dialog").getByRole("button", { name: "Save", exact: true }).click();
  await expect.poll(() => page.getByRole("dialog").textContent()).toContain("no folder no");
  expect(await path.inputValue()).toBe("no/mine.json");
  await path.fill("mine.json");
  await page.getByRole("dialog").getByRole("button", { name: "Save", exact: true }).click();
  await expect.poll(() => server.files.get("mine.json")).toContain('"mine"');
  expect(server.files.get("other.json")).toContain('"other"');
  await expect.poll(() => page.url()).toContain("#/file/mine.json");
  expect(await page.getByRole("dialog").count()).toBe(0);
  forgive("409");
  forgive("404");
});

test("a script is read without running it, or run after consent", async () => {
  server.change("plain.py", 'import euphrates as eu\nflow = eu.Flow("plain")\n');
  server.change("hidden.py", "import os\nflow = made()\n");
  await page.getByRole("tab", { name: "Files" }).click();
  await page.locator(".entry", { hasText: "plain.py" }).click();
  await expect.poll(code).toContain('eu.Flow("plain")');
  expect(server.asked.join()).not.toContain("POST script");
  await page.locator(".entry", { hasText: "hidden.py" }).click();
  const dialog = page.getByRole("dialog", { name: /Run hidden.py/ });
  await dialog.waitFor();
  expect(server.asked.join()).not.toContain("POST script");
  await dialog.getByText("Run it", { exact: true }).click();
  await expect.poll(code).toContain('eu.Flow("scripted")');
  expect(server.asked.join()).toContain('POST script {"path":"hidden.py","run":true}');
});

test("engine problems are shown at their module, and columns are offered", async () => {
  await card("scan_1").click();
  await page.getByLabel("path required").fill("missing.csv");
  await expect.poll(() => card("scan_1").locator(".badge.wrong").count()).toBe(1);
  expect(await page.locator("main .problems").textContent()).toContain("no file matches");
  await page.getByLabel("path required").fill("in.csv");
  await expect.poll(() => card("scan_1").locator(".badge.wrong").count()).toBe(0);
  await edit("amount > 0 and");
  await page.getByLabel("Columns for where").getByText("name").click();
  await expect.poll(code).toContain("amount > 0 and name");
});

test("the inspector shows a queue's kind, reason and schema", async () => {
  await page.locator(".react-flow__edge").first().focus();
  await page.keyboard.press("Enter");
  const side = page.getByLabel("Details", { exact: true });
  await expect.poll(() => side.textContent()).toContain("the consumer needs no order");
  expect(await side.locator(".table").textContent()).toContain("amountfloat64may be null");
});

test("a reloaded tab reopens its file although its URL names a run", async () => {
  await startRun();
  await page.reload();
  await expect.poll(() => page.locator(".run-head").count()).toBe(1);
  await expect.poll(() => page.locator("h1").textContent()).toContain("copy.json");
  await edit("amount > 6");
  await expect.poll(() => server.drafts.get("copy.json")).toContain("amount > 6");
});

test("a read-only session can neither save nor run", async () => {
  server.readOnly = true;
  await page.reload();
  await expect.poll(() => page.locator(".toolbar").textContent()).toContain("read only");
  expect(await page.getByRole("button", { name: "▶ Run" }).count()).toBe(0);
  await edit("amount > 2");
  const saved = page.waitForEvent("download");
  await button("Save").click();
  expect((await saved).suggestedFilename()).toBe("copy.json");
  expect(server.asked).toEqual([]);
});
