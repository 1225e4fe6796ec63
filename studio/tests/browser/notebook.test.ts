// Flows in a real notebook: shown, run, watched, stopped, independently of each other.

import type { Locator } from "playwright-core";
import { describe, expect, test } from "vitest";
import { hasMarimo, Marimo } from "./marimo";
import { accessibilityViolations, forgive, inBrowser, page } from "./page";

const SLOW = `
slow = eu.perturb(instance="work.3", share=0.875)
eu.studio(eu.Flow.load("slow_consumer.json"), rows=2**50, perturb=slow)
`;

const SHORT = `
class Half(eu.Module):
    outputs = ("first",)

    def run(self, ports):
        for batch in ports:
            ports.put("first", batch.slice(0, len(batch) // 2))

short = eu.Flow("short")
short.chain(eu.generate("integers", rows=1000), Half, eu.collect())
eu.studio(short)
`;

const FAILING = `
def failing(batch):
    raise ValueError("<img src=x onerror=alert(1)>")

wrong = eu.Flow("<b>wrong</b>")
wrong.chain(eu.generate("integers", rows=10), eu.map(failing, schema={"n": "int64"}), eu.collect())
eu.studio(wrong)
`;

const view = (name: string) => page.getByRole("region", { name: "Flow" }).filter({ hasText: name });
const press = (of: Locator, name: string) => of.getByRole("button", { name }).click();

// Skipped if marimo is not installed, except on CI.
const canBeTried = process.env.EUPHRATES_CI !== undefined || hasMarimo();

describe.skipIf(!canBeTried)("in a notebook", () => {
  inBrowser(() => new Marimo([SLOW, SHORT, FAILING]));

  test("a flow is run, watched and stopped, and the slow instance is named", async () => {
    const slow = view("slow consumer");
    await slow.locator(".card").nth(3).waitFor();
    await press(slow, "Run");
    const status = slow.locator(".run-told");
    await expect.poll(() => status.textContent()).toContain("running");
    await expect.poll(() => slow.locator(".queue[data-level]").count()).toBe(3);
    await expect.poll(() => slow.locator(".queue-label").first().textContent()).toContain("rows/s");
    const slowStatus = slow.getByRole("status");
    await expect.poll(() => slowStatus.locator(".slow").count()).toBe(1);
    expect(await slowStatus.textContent()).toContain("work.3");
    await slow.getByRole("tab", { name: "Instances" }).click();
    await expect.poll(() => slow.locator("tr[data-slow=true]").textContent()).toContain("work.3");
    // The other views are not affected.
    expect(await view("short").locator(".tabs").count()).toBe(0);
    await press(slow, "Stop");
    await expect.poll(() => status.textContent()).toContain("stopped");
    await press(slow, "Run");
    await expect.poll(() => status.textContent()).toContain("running");
    await press(slow, "Stop");
    await expect.poll(() => status.textContent()).toContain("stopped");
    forgiveMarimo();
  });

  test("modules defined in the notebook run and the report is shown", async () => {
    const short = view("short");
    await press(short, "Run");
    await short.locator(".report").waitFor();
    expect(await short.locator(".report .table").textContent()).toContain("python_1");
    expect(await short.locator(".card-name").allTextContents()).toContain("Half");
    expect(await short.locator(".queue[data-level]").count()).toBe(2);
    expect(await short.locator(".run-told").textContent()).toContain("done");
    forgiveMarimo();
  });

  test("a failure is shown with its traceback as plain text", async () => {
    const wrong = view("<b>wrong</b>");
    await press(wrong, "Run");
    const failure = wrong.getByRole("alert");
    await failure.waitFor();
    expect(await failure.textContent()).toContain("ValueError: <img src=x onerror=alert(1)>");
    expect(await failure.locator("pre").textContent()).toContain("in failing");
    expect(await wrong.locator(".card .badge.wrong").textContent()).toBe("failed");
    expect(await wrong.locator("img, b").count()).toBe(0);
    forgiveMarimo();
  });

  test("styles are isolated, the theme follows the notebook, and accessibility holds", async () => {
    const short = view("short");
    const panel = () => short.evaluate((element) => getComputedStyle(element).backgroundColor);
    await short.locator(".card").nth(2).waitFor();
    await expect.poll(panel).toBe("rgb(255, 255, 255)");
    await page.emulateMedia({ colorScheme: "dark" });
    await expect.poll(panel).toBe("rgb(28, 32, 36)");
    const outside = () =>
      page.evaluate(() => getComputedStyle(document.body).getPropertyValue("--page"));
    expect(await outside()).toBe("");
    expect(await accessibilityViolations(short)).toEqual([]);
    forgiveMarimo();
  });
});

/** Forgives a warning about marimo's own preloads. */
function forgiveMarimo(): void {
  forgive("was preloaded using link preload but not used");
}
