// Runs with a scripted server: started, watched, perturbed, compared, failed.

import { expect, test } from "vitest";
import { accessibilityViolations, button, card, code, forgive, newTab, page } from "./page";
import { COPY, edit, server, startRun, steps, withScriptedServer } from "./scriptedFixture";
import { ScriptedRun, STEPS_MAX } from "./scriptedRun";

withScriptedServer();

test("a flow is run, watched, stopped and run again with other values", async () => {
  await card("filter_1").click();
  const field = page.locator(".field", { has: page.getByLabel("where required") });
  await field.getByRole("button", { name: "$" }).click();
  await page.keyboard.press("Enter");
  await startRun();
  await steps(4);
  expect(await page.locator(".run-head").textContent()).toContain("1.00 s");
  expect(await card("filter_1").locator(".live").textContent()).toContain("busy 9");
  expect(await card("filter_1").textContent()).toContain("bottleneck");
  expect(await page.locator(".queue-label").first().textContent()).toContain("rows/s");
  await button("■ Stop").click();
  await expect.poll(() => page.locator(".run-head").textContent()).toContain("stopped");
  await button("Run with…").click();
  await page.getByLabel("where", { exact: true }).fill("amount > 7");
  await page.getByLabel("Run on", { exact: true }).selectOption("processes:2");
  await page.getByRole("dialog").getByRole("button", { name: "Run" }).click();
  await expect.poll(() => page.url()).toContain("#/run/2");
  expect(server.lastOf("POST runs ")).toContain('"variables":{"where": "amount > 7"}');
  expect(server.lastOf("POST runs ")).toContain('"cluster":"processes:2"');
  await page.getByRole("tab", { name: "Runs" }).click();
  await page.getByRole("link", { name: /copy/ }).last().click();
  await expect.poll(() => page.url()).toContain("#/run/1");
});

test("the report shows the cost of static division; two runs are compared", async () => {
  await startRun();
  await steps(STEPS_MAX);
  const report = page.locator(".report");
  await expect.poll(() => report.textContent()).toContain("static division21.6 s");
  expect(await report.textContent()).toContain("filter_1.1 took 4.0×");
  await page.getByRole("button", { name: "Run again" }).click();
  await expect.poll(() => page.url()).toContain("#/run/2");
  await steps(2);
  await button("■ Stop").click();
  await page.getByRole("tab", { name: "Runs" }).click();
  await page.getByLabel("Compare run 1").check();
  await page.getByLabel("Compare run 2").check();
  await page.getByText("Compare the two").click();
  const compared = page.locator(".compare");
  await expect.poll(() => compared.textContent()).toContain("donestopped");
  expect(await compared.textContent()).toContain("Differences of the flowsNothing.");
  const lines = compared.locator("polyline");
  const points = async (line: number) =>
    ((await lines.nth(line).getAttribute("points")) ?? "").split(" ").length;
  expect([await points(0), await points(1)]).toEqual([STEPS_MAX, 2]);
  const before = await lines.first().getAttribute("points");
  await compared.getByLabel("Throughput of").selectOption("filter_1");
  expect(await lines.first().getAttribute("points")).not.toBe(before);
  expect(await accessibilityViolations(compared)).toEqual([]);
  await page.reload();
  await expect.poll(() => compared.textContent()).toContain("donestopped");
});

test("a comparison with a run that is gone says so", async () => {
  await startRun();
  await page.goto(page.url().replace(/#.*/, "#/compare/1/7"));
  await page.reload();
  const compared = page.locator(".compare");
  await expect.poll(() => compared.getByRole("alert").textContent()).toContain("no such run");
  forgive("404");
});

test("the compare button stays visible in a long list of runs", async () => {
  const document = JSON.parse(COPY);
  for (let id = 1; id <= 40; id += 1) {
    server.runs.push(new ScriptedRun(String(id), { document, variables: {} }));
  }
  await page.reload();
  await page.getByRole("tab", { name: "Runs" }).click();
  const list = page.locator(".palette-list");
  const isInView = async (text: string) => {
    const [outer, inner] = [await list.boundingBox(), await page.getByText(text).boundingBox()];
    if (outer === null || inner === null) return false;
    return inner.y >= outer.y && inner.y + inner.height <= outer.y + outer.height;
  };
  await page.getByLabel("Compare run 40").check();
  await expect.poll(() => isInView("Choose one more to compare the two.")).toBe(true);
  await page.getByLabel("Compare run 1", { exact: true }).check();
  await list.evaluate((list) => list.scrollTo(0, list.scrollHeight));
  await expect.poll(() => isInView("Compare the two")).toBe(true);
  await list.evaluate((list) => list.scrollTo(0, 0));
  await expect.poll(() => isInView("Compare the two")).toBe(true);
  await page.getByText("Compare the two").click();
  await expect.poll(() => page.url()).toContain("#/compare/40/1");
});

test("a perturbed instance is named until the perturbation ends", async () => {
  await startRun();
  await steps(2);
  await button("Slow something…").click();
  await page.getByLabel("Which", { exact: true }).selectOption("filter_1.2");
  await page.getByRole("button", { name: "Slow it" }).click();
  await expect
    .poll(() => server.lastOf("POST runs/1/perturb"))
    .toContain('"instance":"filter_1.2","share":0.75');
  await steps(2);
  const head = page.locator(".run-head");
  await expect.poll(() => head.textContent()).toContain("slow filter_1.2 4.0×");
  expect(await head.textContent()).toContain("bottleneck filter_1.2");
  expect(await card("filter_1").locator(".badge.slow").getAttribute("title")).toContain(".2");
  await page.getByRole("tab", { name: "Instances and workers" }).click();
  expect(await page.locator("tr[data-slow=true]").textContent()).toContain("filter_1.2");
  await button("Slow something…").click();
  const slowed = page.getByLabel("Active slowdowns");
  expect(await slowed.textContent()).toContain("instance filter_1.2: 4.0×");
  await page.getByLabel("Which", { exact: true }).selectOption("filter_1.1");
  await page.getByRole("button", { name: "Slow it" }).click();
  await expect
    .poll(() => server.lastOf("POST runs/1/perturb"))
    .toContain('"instance":"filter_1.1"');
  await steps(1);
  await button("Slow something…").click();
  await button("End instance filter_1.1").click();
  await expect.poll(() => server.lastOf("DELETE runs/1/perturb")).toBeDefined();
  await steps(1);
  await expect.poll(() => slowed.locator("li").count()).toBe(1);
  expect(await slowed.textContent()).toContain("filter_1.2");
  const endings = () => server.asked.filter((asked) => asked.startsWith("DELETE")).length;
  await page.getByText("End all of it").click();
  await expect.poll(endings).toBe(2);
  await steps(1);
  await expect.poll(() => head.textContent()).not.toContain("slow filter_1.2");
});

test("invalid durations and rates are marked and not sent", async () => {
  await startRun();
  await steps(2);
  await button("Slow something…").click();
  const dialog = page.getByRole("dialog", { name: "Slow something" });
  const seconds = dialog.getByLabel("Seconds");
  for (const wrong of ["-3", "abc", "0"]) {
    await seconds.fill(wrong);
    expect(await seconds.getAttribute("aria-invalid")).toBe("true");
    expect(await dialog.textContent()).toContain("a number above 0, or nothing");
    expect(await button("Slow it").isDisabled()).toBe(true);
  }
  await seconds.fill("");
  expect(await seconds.getAttribute("aria-invalid")).toBe("false");
  expect(await button("Slow it").isDisabled()).toBe(false);
  await dialog.locator("select").first().selectOption("link");
  await dialog.getByLabel("At most").fill("fast");
  expect(await dialog.getByLabel("At most").getAttribute("aria-invalid")).toBe("true");
  expect(await button("Slow it").isDisabled()).toBe(true);
  await dialog.getByLabel("At most").fill("5MB/s");
  await button("Slow it").click();
  await expect.poll(() => server.lastOf("POST runs/1/perturb")).toContain('"rate":"5MB/s"}');
});

test("the start dialog validates all settings", async () => {
  await card("filter_1").click();
  const option = page.locator(".field", { has: page.getByLabel("where required") });
  await option.getByRole("button", { name: "$" }).click();
  await page.keyboard.press("Enter");
  await button("Run with…").click();
  const dialog = page.getByRole("dialog", { name: "Run copy" });
  const run = dialog.getByRole("button", { name: "Run" });
  const fields = [
    ["Cores", ["0", "-1", "two"], "3"],
    ["Memory", ["zz -1", "0"], "64 MiB"],
  ] as const;
  for (const [label, wrong, right] of fields) {
    const field = dialog.getByLabel(label);
    for (const text of wrong) {
      await field.fill(text);
      expect(await field.getAttribute("aria-invalid"), text).toBe("true");
      expect(await run.isDisabled()).toBe(true);
    }
    await field.fill(right);
    expect(await run.isDisabled()).toBe(false);
  }
  const where = dialog.getByLabel("where", { exact: true });
  await where.fill("3");
  expect(await dialog.textContent()).toContain("3 is not a text, as `where` of `filter_1` has to");
  expect(await run.isDisabled()).toBe(true);
  await where.fill("amount > 7");
  await run.click();
  await expect.poll(() => server.lastOf("POST runs ")).toContain('"threads":3,"memory":"64 MiB"');
});

test("right-to-left names are isolated", async () => {
  const name = "\u202eyppoc";
  server.change("copy.json", COPY.replace('"copy"', JSON.stringify(name)));
  const isAlone = async (where: string) => {
    const names = page.locator(where).getByText(name, { exact: true });
    await expect.poll(() => names.count()).toBeGreaterThan(0);
    for (const one of await names.all()) {
      expect(await one.textContent()).toBe(name);
      expect(await one.evaluate((one) => getComputedStyle(one).unicodeBidi)).toBe("isolate");
    }
  };
  await isAlone("h1");
  for (const run of ["1", "2"]) {
    await page
      .getByRole("button", { name: /▶ Run|Run again/ })
      .first()
      .click();
    await expect.poll(() => page.url()).toContain(`#/run/${run}`);
    await steps(2);
    await isAlone(".run-head");
    await button("■ Stop").click();
    await expect.poll(() => page.locator(".run-head").textContent()).toContain("stopped");
  }
  await page.getByRole("tab", { name: "Runs" }).click();
  await isAlone(".run-entry");
  await page.getByLabel("Compare run 1").check();
  await page.getByLabel("Compare run 2").check();
  await page.getByText("Compare the two").click();
  await isAlone(".compare th");
});

test("rows of a queue are shown as text and have a URL", async () => {
  await startRun();
  await steps(1);
  await page.locator(".react-flow__edge").nth(1).focus();
  await page.keyboard.press("Enter");
  await expect.poll(() => page.url()).toContain("#/run/1/queue/1");
  await expect.poll(() => page.locator(".rows tbody tr").count()).toBe(100);
  expect(await page.locator(".rows").textContent()).toContain("<img src=x onerror=alert(1)>");
  expect(await page.locator(".rows img").count()).toBe(0);
  const tab = await newTab("#/run/1/queue/1");
  await expect.poll(() => tab.locator(".rows tbody tr").count()).toBe(100);
});

test("a failed run shows its module, message and row", async () => {
  await edit("boom");
  await startRun();
  await steps(3);
  await expect.poll(() => card("filter_1").locator(".badge.wrong").textContent()).toBe("failed");
  const failure = page.locator(".failure");
  expect(await failure.textContent()).toContain('File "clean.py", line 7');
  expect(await failure.textContent()).toContain("<b>Eve</b>");
  expect(await failure.textContent()).toContain("row 17 of its input");
  expect(await failure.locator("b").count()).toBe(0);
  await page.getByRole("tab", { name: "Problems" }).click();
  expect(await page.locator("main .problems").textContent()).toContain("The run has failed: ");
});

test("the page resumes its run after the server was away", async () => {
  await startRun();
  await steps(2);
  await server.close();
  await expect.poll(() => page.locator(".notice").textContent()).toContain("does not answer");
  await edit("amount > 3");
  await server.open();
  await expect.poll(() => page.locator(".notice").count(), { timeout: 20_000 }).toBe(0);
  await steps(6);
  await expect.poll(() => page.locator(".run-head").textContent()).toContain("2.00 s");
  expect(await code()).toContain("amount > 3");
  await expect.poll(() => server.drafts.get("copy.json")).toContain("amount > 3");
  forgive("net::ERR_");
});

test("a hidden tab closes its stream and catches up when shown", async () => {
  const isSeen = (is: boolean) =>
    page.evaluate((is) => {
      Object.defineProperty(document, "hidden", { configurable: true, value: !is });
      document.dispatchEvent(new Event("visibilitychange"));
    }, is);
  await startRun();
  await steps(2);
  await isSeen(false);
  await expect.poll(() => server.listeners).toBe(0);
  server.change("copy.json", COPY.replace("amount > 0", "amount > 5"));
  await steps(6);
  expect(await code()).toContain("amount > 0");
  await isSeen(true);
  await expect.poll(code).toContain("amount > 5");
  await expect.poll(() => page.locator(".run-head").textContent()).toContain("2.00 s");
  expect(server.listeners).toBe(1);
});

test("two tabs share runs and follow each other's saves", async () => {
  await startRun();
  const tab = await newTab();
  await tab.getByRole("tab", { name: "Runs" }).click();
  await tab.getByRole("link", { name: /copy/ }).click();
  await steps(3);
  await expect.poll(() => tab.locator(".run-head").textContent()).toContain("0.75 s");
  await edit("amount > 4");
  await page.keyboard.press("Control+s");
  const text = () => tab.getByLabel("The flow in Python").inputValue();
  await expect.poll(text).toContain("amount > 4");
});

test("a run of another flow is marked and its flow can be loaded", async () => {
  await startRun();
  await steps(1);
  await edit("amount > 8");
  const other = page.getByText("What ran is not what is drawn.");
  await other.waitFor();
  await button("Draw what ran").click();
  await expect.poll(code).toContain("amount > 0");
  expect(await other.count()).toBe(0);
});
