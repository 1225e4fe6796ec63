// The studio as shipped: the wheel's page and server, real files, real runs.

import { expect, test } from "vitest";
import {
  accessibilityViolations,
  button,
  card,
  code,
  drag,
  entry,
  forgive,
  inBrowser,
  middleOf,
  newTab,
  page,
  queues,
  tabAt,
  writeCode,
} from "./page";
import { RealServer } from "./realServer";

let studio: RealServer;

inBrowser(() => {
  studio = new RealServer();
  studio.write("in.csv", TABLE);
  studio.write("numbers.json", JSON.stringify(NUMBERS));
  return studio;
});

const TABLE = `id,name\n${Array.from({ length: 5000 }, (_, i) => `${i},name ${i}\n`).join("")}`;

/** A flow that runs until stopped, or for a number of rows. */
const NUMBERS = {
  euphrates: 1,
  name: "numbers",
  variables: { rows: { default: 2 ** 40 } },
  modules: [
    { id: "make", module: "generate", config: { what: "integers", rows: { $var: "rows" } } },
    { id: "even", module: "filter", config: { where: "n % 2 = 0" } },
    { id: "total", module: "count", config: {} },
    { id: "kept", module: "collect", config: {} },
  ],
  queues: [
    { from: "make", to: "even" },
    { from: "even", to: "total" },
    { from: "total", to: "kept" },
  ],
};

const head = () => page.locator(".run-head");
const press = (keys: string) => page.keyboard.press(keys);

async function openFile(name: string): Promise<void> {
  await page.getByRole("tab", { name: "Files" }).click();
  await entry(name).click();
}

async function runNumbers(): Promise<void> {
  await openFile("numbers.json");
  await card("kept").waitFor();
  await button("▶ Run").click();
  await card("make").locator(".live").waitFor();
}

test("the copy flow is built by mouse, saved and run", async () => {
  const canvas = page.locator(".react-flow");
  await entry("scan").dragTo(canvas, { targetPosition: { x: 120, y: 120 } });
  await entry("save").dragTo(canvas, { targetPosition: { x: 520, y: 120 } });
  const handle = (id: string, kind: string) => card(id).locator(`.react-flow__handle.${kind}`);
  await drag(handle("scan_1", "source"), handle("save_1", "target"));
  await expect.poll(queues).toEqual(["flow.attach(scan_1, save_1)"]);
  await card("scan_1").click();
  await page.getByLabel("path required").fill("in.csv");
  await card("save_1").click();
  await page.getByLabel("path required").fill("out.csv");
  await button("Save").click();
  await page.getByLabel("Path in the project").fill("copy.json");
  await page.getByRole("dialog").getByRole("button", { name: "Save", exact: true }).click();
  await expect.poll(() => page.locator("h1").textContent()).toContain("copy.json");
  expect(studio.read("copy.json")).toContain("in.csv");
  await button("▶ Run").click();
  await page.locator(".report").waitFor();
  expect(studio.rows("out.csv")).toEqual(studio.rows("in.csv"));
});

test("a queue is previewed without its sinks, and leaves no record", async () => {
  await writeCode(`
flow = eu.Flow("preview")
scan_1 = flow.place(eu.scan("in.csv"))
filter_1 = flow.place(eu.filter("id >= 4990 and id < 4995"))
sort_1 = flow.place(eu.sort("id desc"))
save_1 = flow.place(eu.save("sorted.csv"))
flow.attach(scan_1, filter_1)
flow.attach(filter_1, sort_1)
flow.attach(sort_1, save_1)
`);
  await page.getByLabel("queue from sort_1 to save_1").press("Enter");
  await button("Preview rows").click();
  const dialog = page.getByRole("dialog");
  await expect.poll(() => dialog.textContent()).toContain("5 rows");
  const cells = await dialog.locator("tbody td").allTextContents();
  expect(cells.filter((cell) => cell.startsWith("name"))).toEqual(
    [4994, 4993, 4992, 4991, 4990].map((id) => `name ${id}`),
  );
  await dialog.getByRole("button", { name: "Close" }).click();
  expect(studio.has("sorted.csv")).toBe(false);
  await page.getByRole("tab", { name: "Runs" }).click();
  await expect.poll(() => page.locator(".palette").textContent()).toContain("No runs yet.");
});

test("the copy flow is built by keyboard alone, saved and run", async () => {
  await press("/");
  await page.keyboard.type("scan");
  await press("Enter");
  await press("Control+A");
  await page.keyboard.type("save");
  await press("Enter");
  await expect.poll(queues).toEqual(["flow.attach(scan_1, save_1)"]);
  for (const [id, path] of [
    ["scan_1", "in.csv"],
    ["save_1", "out.csv"],
  ] as const) {
    await tabTo(card(id).and(page.locator(":focus")));
    await press("Enter");
    await tabTo(page.getByLabel("path required").and(page.locator(":focus")));
    await page.keyboard.type(path);
  }
  await expect.poll(code).toContain('eu.save("out.csv")');
  await press("Control+s");
  await tabTo(page.getByLabel("Path in the project").and(page.locator(":focus")));
  await press("Control+A");
  await page.keyboard.type("keys.json");
  await press("Enter");
  await expect.poll(() => page.locator("h1").textContent()).toContain("keys.json");
  await press("Control+Enter");
  await page.locator(".report").waitFor();
  expect(studio.rows("out.csv")).toEqual(studio.rows("in.csv"));
});

/** Presses Tab until an element has the focus, at most 200 times. */
async function tabTo(focused: ReturnType<typeof card>): Promise<void> {
  for (let tabs = 0; tabs < 200; tabs += 1) {
    if ((await focused.count()) > 0) return;
    await press("Tab");
  }
  throw new Error("it cannot be reached by Tab");
}

const LINE = `
flow = eu.Flow("line")
scan_1 = flow.place(eu.scan("in.csv"))
filter_1 = flow.place(eu.filter("id < 7"))
save_1 = flow.place(eu.save("few.csv"))
flow.attach(scan_1, filter_1)
flow.attach(filter_1, save_1)
`;

test("the canvas follows the code, the engine checks the flow, and it runs", async () => {
  await writeCode(LINE.replace("id <", "idd <"));
  await expect.poll(() => card("filter_1").locator(".badge.wrong").count()).toBe(1);
  await expect.poll(() => page.locator("main .problems").textContent()).toContain("idd");
  await writeCode(LINE);
  await expect.poll(() => page.locator(".react-flow__edge").count()).toBe(2);
  await expect.poll(() => card("filter_1").locator(".badge.wrong").count()).toBe(0);
  const before = await middleOf(card("save_1"));
  await writeCode(LINE.replace("flow.attach(filter_1, save_1)", ""));
  await expect.poll(() => page.locator(".react-flow__edge").count()).toBe(1);
  await writeCode(LINE);
  await expect.poll(() => page.locator(".react-flow__edge").count()).toBe(2);
  expect(await middleOf(card("save_1"))).toEqual(before);
  await button("▶ Run").click();
  await page.locator(".report").waitFor();
  expect(studio.rows("few.csv").length).toBe(8);
});

test("a refused connection shows the engine's reason", async () => {
  await writeCode(`${LINE}count_1 = flow.place(eu.count())`);
  await button("Fit View").click();
  await card("count_1").waitFor();
  const handle = (id: string, kind: string) => card(id).locator(`.react-flow__handle.${kind}`);
  await drag(handle("scan_1", "source"), handle("count_1", "target"));
  const refused = (await page.locator(".refused").textContent()) ?? "";
  await writeCode(`${LINE}count_1 = flow.place(eu.count())\nflow.attach(scan_1, count_1)`);
  const problems = await page.evaluate(
    async (text) => {
      const headers = { "Content-Type": "application/json", "X-Euphrates": "1" };
      const body = `{"document":${text},"variables":{}}`;
      const response = await fetch("api/check", { method: "POST", headers, body });
      return ((await response.json()) as { problems: { message: string }[] }).problems;
    },
    await json(),
  );
  expect(
    problems.some(({ message }) => refused.includes(message)),
    JSON.stringify(problems),
  ).toBe(true);
});

async function json(): Promise<string> {
  await page.getByRole("tab", { name: "JSON" }).click();
  return page.getByLabel("The flow in JSON").inputValue();
}

test("a flow is run, watched, stopped, and run again with another value", async () => {
  await runNumbers();
  await expect.poll(() => card("even").locator(".live").textContent()).toMatch(/\d %/);
  await expect.poll(() => page.locator(".queue-label").first().textContent()).toContain("rows/s");
  await page.locator(".react-flow__edge").first().focus();
  await press("Enter");
  await expect.poll(() => page.locator(".rows tbody tr").count()).toBeGreaterThan(0);
  expect(await page.locator(".rows thead").textContent()).toContain("n int64");
  await button("■ Stop").click();
  await expect.poll(() => head().textContent()).toContain("stopped");
  await button("Run with…").click();
  await page.getByLabel("rows", { exact: true }).fill("1000");
  await page.getByRole("dialog").getByRole("button", { name: "Run" }).click();
  await page.locator(".report").waitFor();
  expect(await head().textContent()).toContain("rows=1000");
  await card("kept").click();
  await page.getByRole("tab", { name: "Rows" }).click();
  await expect.poll(() => page.locator(".rows tbody").textContent()).toBe("500");
  await page.getByRole("tab", { name: "Runs" }).click();
  expect(await page.locator(".run-entry .run-state").last().getAttribute("title")).toBe("stopped");
});

test("a slowed instance is named, and recovers when the perturbation ends", async () => {
  await button("New…").click();
  await page.getByRole("button", { name: /^A slow consumer/ }).click();
  await button("▶ Run").click();
  await card("work").locator(".live").waitFor();
  await button("Slow something…").click();
  await page.getByLabel("Which", { exact: true }).selectOption("work.2");
  await page.getByLabel("How slow").selectOption("10 times as slow");
  await button("Slow it").click();
  await expect.poll(() => head().textContent(), { timeout: 90_000 }).toContain("slow work.2");
  expect(await card("work").locator(".badge.slow").getAttribute("title")).toContain("work.2");
  await button("Slow something…").click();
  await page.getByLabel("Which", { exact: true }).selectOption("work.1");
  await button("Slow it").click();
  await button("Slow something…").click();
  await expect.poll(() => page.getByLabel("Active slowdowns").locator("li").count()).toBe(2);
  await button("End instance work.1").click();
  await expect.poll(() => page.getByLabel("Active slowdowns").locator("li").count()).toBe(1);
  await button("End instance work.2").click();
  await expect.poll(() => page.getByLabel("Active slowdowns").count()).toBe(0);
  await button("Cancel").click();
  await expect.poll(() => head().textContent(), { timeout: 90_000 }).not.toContain("slow work.2");
});

const FAILING = `import euphrates as eu

def rate(batch):
    raise ValueError("<b>no</b> rate")

flow = eu.Flow("failing")
flow.chain(eu.scan("in.csv"), rate, eu.collect())
`;

test("a script runs after consent; its failure is shown with the line", async () => {
  studio.write("failing.py", FAILING);
  await openFile("failing.py");
  await page.getByRole("dialog", { name: /Run failing.py/ }).waitFor();
  await button("Run it").click();
  await card("map_1").waitFor();
  await button("▶ Run").click();
  await expect.poll(() => card("map_1").locator(".badge.wrong").textContent()).toBe("failed");
  const failure = page.locator(".failure");
  expect(await failure.textContent()).toContain('failing.py", line 4, in rate');
  expect(await failure.textContent()).toContain("<b>no</b> rate");
  expect(await failure.locator("b").count()).toBe(0);
});

const OWN = `import euphrates as eu

class First(eu.Module):
    """Hands on the first rows."""

    def __init__(self, rows: int):
        self.rows = rows

    def run(self, ports):
        for batch in ports:
            ports.put(batch.slice(0, self.rows))
`;

test("custom modules appear in the palette after their script has run", async () => {
  const yours = page.getByRole("heading", { name: "Yours" });
  expect(await yours.count()).toBe(0);
  studio.write("mine.py", OWN);
  await openFile("mine.py");
  await page.getByRole("dialog", { name: /Run mine.py/ }).waitFor();
  const modules = page.getByRole("tab", { name: "Modules" }).first();
  await button("Run it").click();
  await modules.click();
  await yours.waitFor();
  await press("/");
  for (const name of ["generate", "First", "collect"]) {
    await press("Control+A");
    await page.keyboard.type(name);
    await press("Enter");
  }
  await expect.poll(queues).toHaveLength(2);
  await card("generate_1").click();
  await page.getByLabel("what required").selectOption("integers");
  await page.getByLabel("rows", { exact: true }).fill("100");
  await card("python_1").click();
  expect(await card("python_1").locator(".card-name").textContent()).toBe("First");
  await page.getByLabel("rows required").fill("3");
  await button("▶ Run").click();
  await page.locator(".report").waitFor();
  await card("collect_1").click();
  await page.getByRole("tab", { name: "Rows" }).click();
  await expect.poll(() => page.locator(".rows tbody tr").first().textContent()).toBe("0");
});

test("two tabs share runs and follow each other's saves", async () => {
  await runNumbers();
  const tab = await newTab("#/file/numbers.json");
  await tab.getByRole("tab", { name: "Runs" }).click();
  await tab.getByRole("link", { name: /numbers/ }).click();
  await expect.poll(() => tab.locator(".run-head").textContent()).toContain("running");
  await card("even").click();
  await page.getByLabel("where required").fill("n % 3 = 0");
  await press("Control+s");
  const text = () => tab.getByLabel("The flow in Python").inputValue();
  await expect.poll(text).toContain("n % 3 = 0");
  studio.write("numbers.json", JSON.stringify(NUMBERS).replace("n % 2", "n % 5"));
  await expect.poll(text).toContain("n % 5 = 0");
  await expect.poll(code).toContain("n % 5 = 0");
  await tab.getByRole("button", { name: "■ Stop" }).click();
  await expect.poll(() => head().textContent()).toContain("stopped");
});

test("the page resumes its run after the server was killed and restarted", async () => {
  await runNumbers();
  await studio.kill();
  const notice = page.locator(".notice");
  await expect.poll(() => notice.textContent()).toContain("does not answer");
  await card("even").click();
  await page.getByLabel("where required").fill("n % 7 = 0");
  const link = await studio.open();
  // A restarted server has a new secret.
  await expect.poll(() => notice.textContent()).toContain("Open the link");
  await tabAt(link);
  await expect.poll(() => notice.count()).toBe(0);
  await expect.poll(() => head().textContent()).toContain("running");
  await expect.poll(code).toContain("n % 7 = 0");
  await button("■ Stop").click();
  await expect.poll(() => head().textContent()).toContain("stopped");
  forgive("net::ERR_", "401");
});

test("a run has no serious accessibility violations in either theme", async () => {
  await runNumbers();
  await page.locator(".told").first().waitFor();
  for (const theme of ["light", "dark"]) {
    await page.getByLabel("Colours").selectOption(theme);
    for (const tab of ["Problems", "Instances and workers", "Rows", "Log"]) {
      await page.locator(".dock").getByRole("tab", { name: tab }).click();
      expect(await accessibilityViolations()).toEqual([]);
    }
  }
  await button("■ Stop").click();
  await expect.poll(() => head().textContent()).toContain("stopped");
});
