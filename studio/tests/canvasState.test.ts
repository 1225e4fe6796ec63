// State behind the canvas: ids, layout, merged problems and merged code.

import { expect, test } from "vitest";
import { decodeId, encodeId } from "../src/app/canvas/canvasId";
import {
  autoLayout,
  CARD_SIZE,
  carryPositions,
  makeRoom,
  resolvePositions,
} from "../src/app/state/autoLayout";
import { closeOpenEnds } from "../src/app/state/openEnds";
import {
  applyCode,
  currentFlow,
  edit,
  loadFlow,
  moveModules,
  redoEdit,
  setEngineCheck,
  undoEdit,
  useStudio,
} from "../src/app/state/studioStore";
import { place, rename } from "../src/document/edits";
import { newFlow, newQueue } from "../src/document/flow";
import { withPositions } from "../src/document/layout";
import { mergeCode } from "../src/document/mergeCode";
import { readPython } from "../src/document/python/readPython";
import { writePython } from "../src/document/python/writePython";
import { BUILT_IN } from "../src/document/specs";
import { writeDocument } from "../src/document/writeDocument";
import { randomEdit } from "./randomEdits";
import { forSeeds } from "./randomFlow";

test("canvas ids are injective and contain only safe characters", () => {
  forSeeds(500, (random) => {
    const [name, other] = [random.text(), random.text()];
    expect(decodeId(encodeId(name))).toBe(name);
    expect(encodeId(name)).toMatch(/^[A-Za-z0-9_-]*$/);
    expect(encodeId(name) === encodeId(other)).toBe(name === other);
  });
});

test.each([1.3, 0.5])(
  "auto layout to aspect %d positions every module without overlaps",
  (aspect) => {
    forSeeds(50, (random) => {
      let flow = newFlow();
      for (let step = 0; step < 30; step += 1) flow = randomEdit(flow, random).flow;
      const places = [...autoLayout(flow, aspect).values()];
      expect(places.length).toBe(flow.modules.length);
      expect(places.every(({ x, y }) => Number.isFinite(x) && Number.isFinite(y))).toBe(true);
      for (const [i, a] of places.entries()) {
        for (const b of places.slice(i + 1)) {
          const isApart =
            Math.abs(a.x - b.x) >= CARD_SIZE.width || Math.abs(a.y - b.y) >= CARD_SIZE.height;
          expect(isApart).toBe(true);
        }
      }
    });
  },
);

test("positions stay when modules are added", () => {
  let flow = place(newFlow(), "scan").flow;
  flow = withPositions(flow, new Map([["scan_1", { x: 500, y: 300 }]]));
  const before = new Map([["count_1", { x: 7, y: 8 }]]);
  flow = place(place(flow, "count").flow, "collect").flow;
  const places = resolvePositions(flow, before);
  expect(places.get("scan_1")).toEqual({ x: 500, y: 300 });
  expect(places.get("count_1")).toEqual({ x: 7, y: 8 });
  expect(places.get("collect_1")?.y).toBeGreaterThanOrEqual(300 + CARD_SIZE.height);
});

test("a renamed module keeps its position through undo, redo and code edits", () => {
  const flow = ["scan", "count", "collect"].reduce((flow, one) => place(flow, one).flow, newFlow());
  loadFlow(flow);
  const placeOf = (id: string) => useStudio.getState().positions.get(id);
  const before = ["scan_1", "count_1", "collect_1"].map(placeOf);
  const now = (id: string) => ["scan_1", id, "collect_1"].map(placeOf);
  edit("rename", (flow) => rename(flow, "count_1", "rows"));
  expect(now("rows")).toEqual(before);
  undoEdit();
  expect(now("count_1")).toEqual(before);
  redoEdit();
  expect(now("rows")).toEqual(before);
  const code = writePython(currentFlow(), BUILT_IN).replaceAll("rows", "lines");
  applyCode((flow) => mergeCode(flow, readPython(code, BUILT_IN).flow ?? flow));
  expect(now("lines")).toEqual(before);
});

test("the first move of a flow that was never arranged is undone", () => {
  loadFlow(["scan", "count"].reduce((flow, one) => place(flow, one).flow, newFlow()));
  const placeOf = (id: string) => useStudio.getState().positions.get(id);
  const before = ["scan_1", "count_1"].map(placeOf);
  moveModules(new Map([["scan_1", { x: 700, y: 90 }]]));
  expect(placeOf("scan_1")).toEqual({ x: 700, y: 90 });
  undoEdit();
  expect(["scan_1", "count_1"].map(placeOf)).toEqual(before);
});

test("a replaced module does not inherit the position of the old one", () => {
  const [before, now] = [place(newFlow(), "scan").flow, place(newFlow(), "count").flow];
  const places = new Map([["scan_1", { x: 7, y: 8 }]]);
  expect(carryPositions(places, before, now).has("count_1")).toBe(false);
});

test("problems found by both page and engine are listed once", () => {
  const flow = place(newFlow(), "scan").flow;
  loadFlow(flow);
  const own = useStudio.getState().problems;
  const nowhere = own.find(({ message }) => message.includes("goes nowhere"));
  if (nowhere === undefined) throw new Error("the page sees nothing wrong");
  const more = { message: "something else" };
  const again = { message: nowhere.message, place: "module scan_1" };
  setEngineCheck(flow, { problems: [again, more], queues: [] });
  expect(useStudio.getState().problems).toEqual([...own, more]);
});

test("splicing a module moves those behind it to make room", () => {
  const places = new Map([
    ["a", { x: 0, y: 0 }],
    ["b", { x: 280, y: 0 }],
    ["c", { x: 560, y: 90 }],
  ]);
  const room = makeRoom(places, { from: "a", to: "b", dropped: { x: 100, y: 10 } });
  expect(room.at).toEqual({ x: 296, y: 10 });
  expect(room.positions.get("a")).toEqual({ x: 0, y: 0 });
  expect(room.positions.get("b")).toEqual({ x: 592, y: 0 });
  expect(room.positions.get("c")).toEqual({ x: 872, y: 90 });
});

test("merging unchanged code keeps unknown fields and object identity", () => {
  forSeeds(300, (random) => {
    const flow = { ...random.flow(), unknown: new Map([["shape", "round"]]) };
    const read = readPython(writePython(flow, BUILT_IN), BUILT_IN).flow;
    if (read === undefined) throw new Error("its code is not read");
    const now = mergeCode(flow, read);
    expect(JSON.parse(writeDocument(now))).toEqual(JSON.parse(writeDocument(flow)));
  });
  const flow = { ...newFlow(), queues: [newQueue("a", "b")] };
  expect(mergeCode(flow, { ...flow, queues: [newQueue("a", "b")] }).queues).toBe(flow.queues);
});

test("open ends are closed behind all that is there, and attached outputs left alone", () => {
  let flow = ["scan", "filter", "count"].reduce((flow, one) => place(flow, one).flow, newFlow());
  flow = { ...flow, queues: [newQueue("scan_1", "filter_1")] };
  const closed = closeOpenEnds(flow, BUILT_IN);
  expect(closed.queues.slice(0, 1)).toEqual(flow.queues);
  expect(closed.queues.slice(1).map(({ from, to }) => [from, to])).toEqual([
    ["filter_1", "collect_1"],
    ["count_1", "collect_2"],
  ]);
  expect(closeOpenEnds(closed, BUILT_IN)).toBe(closed);
});
