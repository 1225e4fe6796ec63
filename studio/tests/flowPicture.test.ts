// The exported picture and the throughput of a chart: pure functions of a flow and of a run.

import { expect, test } from "vitest";
import { roundUp, throughput } from "../src/app/compare/throughput";
import { flowPicture } from "../src/app/export/flowPicture";
import { resolvePositions } from "../src/app/state/autoLayout";
import { newFlow } from "../src/document/flow";
import { openDocument } from "../src/document/openDocument";
import { BUILT_IN } from "../src/document/specs";
import { forSeeds } from "./randomFlow";

const picture = (flow = newFlow()) =>
  flowPicture({
    flow,
    specs: BUILT_IN,
    positions: resolvePositions(flow, new Map()),
    engineCheck: { queues: [], problems: [] },
  });

const count = (text: string, part: string) => text.split(part).length - 1;

test("a picture has a card for each module and a line for each queue", () => {
  const { flow } = openDocument(
    JSON.stringify({
      euphrates: 1,
      name: "a < b",
      modules: [
        { id: "scan_1", module: "scan", config: { path: "in.csv" } },
        { id: "filter_1", module: "filter", config: { where: 'a > 1 & b = "x"' } },
        { id: "save_1", module: "save", config: { path: "out.csv" } },
      ],
      queues: [
        { from: "scan_1", to: "filter_1", queue: "broadcast" },
        { from: "filter_1", to: "save_1" },
      ],
    }),
  );
  const drawn = picture(flow);
  expect(count(drawn, 'marker-end="url(#end)"')).toBe(2);
  expect(count(drawn, 'stroke-width="3.2"')).toBe(1);
  expect(count(drawn, "<g transform")).toBe(3);
  expect(drawn).toContain("<title>a &lt; b</title>");
  expect(drawn).toContain("where: a &gt; 1 &amp; b = &quot;x&quot;");
});

test("pictures of hostile flows contain only valid XML", () => {
  forSeeds(100, (random) => {
    const drawn = picture(random.flow());
    const names = [...drawn.matchAll(/<\/?([^\s/>]+)/g)].map(([, name]) => name);
    const known = "svg title defs marker path rect g text circle".split(" ");
    expect(names.filter((name) => !known.includes(name ?? ""))).toEqual([]);
    expect(drawn.replace(/&(amp|lt|gt|quot);/g, "")).not.toContain("&");
    expect(drawn).not.toMatch(/NaN|Infinity|undefined/);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what XML cannot hold
    expect(drawn).not.toMatch(/[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/);
  });
});

test("throughput is summed over the instances of a module or of all", () => {
  const history = {
    seconds: [1, 2],
    series: [
      { name: "a.0", module: "a", bytes_per_second: [1, 2] },
      { name: "a.1", module: "a", bytes_per_second: [10] },
      { name: "b.0", module: "b", bytes_per_second: [100, 200] },
    ],
  };
  const rates = (module?: string) =>
    throughput(history, module).map(({ bytesPerSecond }) => bytesPerSecond);
  expect(rates("a")).toEqual([11, 2]);
  expect(rates()).toEqual([111, 202]);
  expect(rates("gone")).toEqual([]);
  expect(throughput(undefined, "a")).toEqual([]);
});

test("an axis ends at 1, 2 or 5 times a power of ten", () => {
  expect([0, 1, 1.1, 3, 7e6, 0.04].map(roundUp)).toEqual([1, 1, 2, 5, 1e7, 0.05]);
});
