// Measures frames per second while queues are live: `npm run frames` prints them. No timing is
// asserted; the browser tests assert what re-renders.

import { test } from "vitest";
import { inBrowser, page } from "../browser/page";
import { ScriptedServer } from "../browser/scriptedServer";

/** Number of modules, and the zoom: figures are drawn only when near. */
const CASES = [
  [50, "far"],
  [200, "far"],
  [200, "near"],
  [500, "far"],
  [500, "near"],
  [1000, "far"],
] as const;
const SECONDS = 6;
/** Interval of the server's progress events. */
const PROGRESS_MS = 250;
const LONG_MS = 50;

let server: ScriptedServer;

inBrowser(() => {
  server = new ScriptedServer();
  return server;
});

/** A flow of chains of ten modules. */
function flowOf(size: number): string {
  const ids = Array.from({ length: size }, (_, i) => `m${i}`);
  const modules = ids.map((id) => ({ id, module: "filter", config: { where: "a > 1" }, count: 4 }));
  const queues = ids.flatMap((to, i) => (i % 10 === 0 ? [] : [{ from: `m${i - 1}`, to }]));
  return JSON.stringify({ euphrates: 1, name: `${size} modules`, modules, queues });
}

test.each(CASES)("frames with %i modules, seen from %s", async (size, from) => {
  server.change("large.json", flowOf(size));
  await page.getByRole("tab", { name: "Files" }).click();
  await page.locator(".entry", { hasText: "large.json" }).click();
  await page.locator(".react-flow__node").nth(9).waitFor();
  await page.getByRole("button", { name: "▶ Run" }).click();
  await page.locator(".run-head").waitFor();
  server.step();
  await page.locator(".live").first().waitFor();
  const closer = page.getByRole("button", { name: "Zoom In" });
  for (let times = 0; from === "near" && times < 8; times += 1) await closer.click();
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable");
  const spent = async () => {
    const { metrics } = await cdp.send("Performance.getMetrics");
    return (name: string) => metrics.find((one) => one.name === `${name}Duration`)?.value ?? 0;
  };
  // Baseline: the frame rate while nothing changes.
  const still = await frames();
  const before = await spent();
  let events = 1;
  const timer = setInterval(() => {
    // Stops before the run ends by itself.
    if (events < 38) server.step();
    events += 1;
  }, PROGRESS_MS);
  const live = await frames();
  clearInterval(timer);
  const after = await spent();
  const parts = ["Script", "RecalcStyle", "Layout", "Task"].map((name) => {
    return `${name} ${(((after(name) - before(name)) / events) * 1000).toFixed(0)} ms`;
  });
  console.log(
    `${size} modules from ${from}: ${framesText(live)}; when nothing changes, ${framesText(still)}`,
  );
  console.log(`  each time a run is told of: ${parts.join(", ")}`);
});

interface Frames {
  readonly rate: number;
  /** Number of frames longer than `LONG_MS`. */
  readonly long: number;
}

function framesText({ rate, long }: Frames): string {
  return `${rate.toFixed(1)} frames/s, ${long} above ${LONG_MS} ms`;
}

function frames(): Promise<Frames> {
  return page.evaluate(
    ([milliseconds, longMs]) =>
      new Promise<Frames>((done) => {
        const [begin, seen] = [performance.now(), { frames: 0, long: 0, last: performance.now() }];
        const next = (now: number) => {
          seen.frames += 1;
          if (now - seen.last > longMs) seen.long += 1;
          seen.last = now;
          if (now - begin < milliseconds) requestAnimationFrame(next);
          else done({ rate: (seen.frames / (now - begin)) * 1000, long: seen.long });
        };
        requestAnimationFrame(next);
      }),
    [SECONDS * 1000, LONG_MS] as const,
  );
}
