// Named connections in Chromium, with the real server and a small store that wants signed requests.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { accessibilityViolations, button, card, code, forgive, inBrowser, page } from "./page";
import { RealServer } from "./realServer";

const CSV = "day,price\n2026-01-01,3\n2026-01-02,8\n";
const SECRET = "wJalrXUtnFEMI-K7MDENG";
let store: Server;
let server: RealServer;

/** Answers requests for `days/a.csv` of any bucket that are signed with the key `KEY-OF-TEST`. */
beforeAll(async () => {
  Object.assign(process.env, { STUDIO_TEST_ID: "KEY-OF-TEST", STUDIO_TEST_KEY: SECRET });
  store = createServer(({ method, url = "", headers }, response) => {
    const isSigned = headers.authorization?.includes("Credential=KEY-OF-TEST/") ?? false;
    const status = !isSigned ? 403 : url.includes("days/a.csv") ? 200 : 404;
    const [, from, to] = /bytes=(\d+)-(\d*)/.exec(headers.range ?? "") ?? [];
    const end = to === undefined || to === "" ? CSV.length : Number(to) + 1;
    const body = status === 200 ? CSV.slice(Number(from ?? 0), end) : "";
    response.writeHead(status === 200 && from !== undefined ? 206 : status, {
      "Content-Length": method === "HEAD" ? CSV.length : body.length,
      "Content-Range": `bytes ${from ?? 0}-${Math.min(end, CSV.length) - 1}/${CSV.length}`,
      "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT",
      ETag: '"1"',
    });
    response.end(method === "HEAD" ? "" : body);
  });
  await new Promise<void>((done) => store.listen(0, "127.0.0.1", done));
});

afterAll(() => store.close());

inBrowser(() => {
  server = new RealServer();
  return server;
});

async function openForm(): Promise<void> {
  await page.getByRole("tab", { name: "Files" }).click();
  await button("Connections…").click();
  await button("Add a connection").click();
}

test("a store is added, tested, and chosen for a path, and no secret is written", async () => {
  await openForm();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("lake");
  const { port } = store.address() as AddressInfo;
  await dialog.getByLabel("Endpoint").fill(`http://127.0.0.1:${port}`);
  await dialog.getByLabel("Region").fill("eu-west-1");
  await dialog.getByLabel("Allow plain HTTP").check();
  await dialog.getByLabel("Variable with the secret key").fill(SECRET);
  await expect.poll(() => dialog.textContent()).toContain("looks like a key");
  expect(await dialog.getByRole("button", { name: "Save" }).isDisabled()).toBe(true);
  await dialog.getByLabel("Variable with the secret key").fill("STUDIO_TEST_KEY");
  await dialog.getByLabel("A file there").fill("s3://raw/days/a.csv");
  await dialog.getByLabel("Variable with the key's id").fill("STUDIO_TEST_NONE");
  await dialog.getByRole("button", { name: "Read its beginning" }).click();
  await expect.poll(() => dialog.getByRole("status").textContent()).toContain("STUDIO_TEST_NONE");
  await dialog.getByLabel("Variable with the key's id").fill("STUDIO_TEST_ID");
  await dialog.getByRole("button", { name: "Read its beginning" }).click();
  await expect.poll(() => dialog.getByRole("status").textContent()).toContain("columns day, price");
  expect(await accessibilityViolations(dialog)).toEqual([]);
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByText("lake").waitFor();
  await dialog.getByRole("button", { name: "Close" }).click();
  await page.getByRole("tab", { name: "Modules" }).click();
  await page.getByLabel("Find a module").fill("scan");
  await page.keyboard.press("Enter");
  await card("scan_1").click();
  await page.getByLabel("path required").fill("s3://raw/days/a.csv");
  await page.getByLabel("Connection", { exact: true }).selectOption("lake");
  await expect.poll(code).toContain("env:STUDIO_TEST_KEY");
  const kept = [await code(), server.read("connections.json")].join();
  expect(kept).not.toContain(SECRET);
  await page.getByRole("tab", { name: "Files" }).click();
  expect(await page.locator(".entry", { hasText: "connections.json" }).count()).toBe(0);
  await page.getByRole("tab", { name: "Modules" }).click();
  await page.getByLabel("Find a module").fill("count");
  await page.keyboard.press("Enter");
  await page.getByLabel("Find a module").fill("collect");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "▶ Run" }).click();
  await expect.poll(() => page.locator(".run-head").textContent()).toContain("done");
  await page.getByRole("tab", { name: "Rows" }).click();
  await expect.poll(() => page.locator(".dock-page td").allTextContents()).toContain("2");
  forgive("favicon");
});

test("a cluster is added, tested, and chosen in the dialog of a run", async () => {
  await openForm();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("rack");
  await dialog.getByLabel("Kind").selectOption("cluster");
  await dialog.getByLabel("Where").fill("processes:1");
  await dialog.getByRole("button", { name: "Run a small flow there" }).click();
  await expect.poll(() => dialog.getByRole("status").textContent()).toBe("A flow ran there.");
  await dialog.getByLabel("Where").fill("elsewhere:1");
  await dialog.getByRole("button", { name: "Run a small flow there" }).click();
  await expect.poll(() => dialog.getByRole("status").textContent()).toContain("elsewhere");
  await dialog.getByLabel("Where").fill("processes:1");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByText("rack").waitFor();
  await dialog.getByRole("button", { name: "Close" }).click();
  await page.getByRole("button", { name: "Run with…" }).click();
  await page.getByLabel("Run on").selectOption({ label: "rack (processes:1)" });
  await page.keyboard.press("Escape");
  await openForm();
  await button("Back").click();
  await page.getByRole("dialog").getByText("rack").click();
  await button("Remove").click();
  await page.getByText("None yet.").waitFor();
});
