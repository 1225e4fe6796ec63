// Groups of modules: kept in the layout, through code, renames, copies and removals.

import { expect, test } from "vitest";
import { encodeId } from "../src/app/canvas/canvasId";
import {
  boxAround,
  groupPositionOf,
  memberChanges,
  withGroups,
} from "../src/app/canvas/groupNodes";
import type { FlowNode } from "../src/app/canvas/ModuleNode";
import type { FlowEdge } from "../src/app/canvas/QueueEdge";
import { autoLayout, CARD_SIZE } from "../src/app/state/autoLayout";
import { copyModules, pasteText } from "../src/document/clipboard";
import { attach, place, queueBetween, removeModules, rename } from "../src/document/edits";
import { type Flow, newFlow } from "../src/document/flow";
import { addGroup, changeGroup, groupOf, groupsOf, removeGroup } from "../src/document/groups";
import { mergeCode, withoutLayout } from "../src/document/mergeCode";
import { openDocument } from "../src/document/openDocument";
import { readPython } from "../src/document/python/readPython";
import { writePython } from "../src/document/python/writePython";
import { BUILT_IN } from "../src/document/specs";
import { writeDocument } from "../src/document/writeDocument";
import { forSeeds } from "./randomFlow";

/** `scan_1` to `collect_1`, of which `filter_1` and `sort_1` are in a group. */
function grouped(): Flow {
  const names = ["scan", "filter", "sort", "collect"];
  let flow = names.reduce((flow, name) => place(flow, name).flow, newFlow());
  for (const [i, name] of names.slice(1).entries()) {
    const ends = [`${names[i]}_1`, `${name}_1`].map((id) => ({ id, port: undefined }));
    const [from = { id: "", port: undefined }, to = from] = ends;
    flow = attach(flow, BUILT_IN, queueBetween(flow, BUILT_IN, from, to));
  }
  const group = addGroup(flow, new Set(["sort_1", "filter_1"]));
  return changeGroup(group, 0, { name: "Clean", note: "drops what is late", isFolded: true });
}

const membersOf = (flow: Flow) => groupsOf(flow).map(({ modules }) => modules);

test("a group survives the document, the program, and edits of the code beside it", () => {
  const flow = grouped();
  expect(openDocument(writeDocument(flow)).flow).toEqual(flow);
  const program = readPython(writePython(flow, BUILT_IN), BUILT_IN).flow;
  expect(writeDocument(program ?? newFlow())).toBe(writeDocument(flow));
  const shown = writePython(withoutLayout(flow), BUILT_IN);
  const read = readPython(shown.replace("flow.attach(sort_1, collect_1)\n", ""), BUILT_IN).flow;
  expect(membersOf(mergeCode(flow, read ?? newFlow()))).toEqual([["filter_1", "sort_1"]]);
});

test("a group follows renames and removals, and goes with its last module", () => {
  const renamed = rename(grouped(), "sort_1", "by day");
  expect(membersOf(renamed)).toEqual([["filter_1", "by day"]]);
  const left = removeModules(renamed, new Set(["filter_1"]));
  expect(membersOf(left)).toEqual([["by day"]]);
  expect(removeModules(left, new Set(["by day"])).layout).toBeUndefined();
  expect(removeGroup(grouped(), 0).layout).toBeUndefined();
});

test("a module is in one group at most", () => {
  const two = addGroup(grouped(), new Set(["scan_1", "filter_1"]));
  expect(membersOf(two)).toEqual([["sort_1"], ["scan_1", "filter_1"]]);
  expect(groupOf(two, new Set(["filter_1", "scan_1"]))?.name).toBe("Group 1");
  expect(groupOf(two, new Set(["filter_1"]))).toBeUndefined();
  expect(() => addGroup(two, new Set(["gone"]))).toThrow("no module is selected");
});

test("a copied group is pasted with the new ids, and a part of one without", () => {
  const flow = grouped();
  const offset = { x: 1, y: 1 };
  const all = copyModules(flow, new Set(["filter_1", "sort_1", "scan_1"]));
  const twice = pasteText(flow, BUILT_IN, all, offset).flow;
  expect(membersOf(twice)).toEqual([
    ["filter_1", "sort_1"],
    ["filter_2", "sort_2"],
  ]);
  expect(groupsOf(twice)[1]).toMatchObject({ name: "Clean", isFolded: true });
  const part = pasteText(flow, BUILT_IN, copyModules(flow, new Set(["sort_1"])), offset).flow;
  expect(membersOf(part)).toEqual([["filter_1", "sort_1"]]);
});

test("groups of an unknown form are kept and not drawn", () => {
  const groups = [7, { name: 3, modules: ["scan_1", 5], colour: "red" }, { modules: "all" }];
  const { flow } = openDocument(
    JSON.stringify({
      euphrates: 1,
      name: "x",
      modules: [{ id: "scan_1", module: "scan" }],
      layout: { groups },
    }),
  );
  expect(groupsOf(flow)).toEqual([
    { position: 1, name: "", note: "", modules: ["scan_1"], isFolded: false },
  ]);
  const changed = changeGroup(flow, 1, { name: "Read" });
  const { layout } = JSON.parse(writeDocument(changed));
  expect(layout.groups[1]).toEqual({ name: "Read", modules: ["scan_1", 5], colour: "red" });
  expect([layout.groups[0], layout.groups[2]]).toEqual([groups[0], groups[2]]);
});

const node = (id: string, x: number): FlowNode =>
  ({ id: encodeId(id), type: "module", position: { x, y: 0 }, data: {} }) as FlowNode;
const edge = (source: string, target: string): FlowEdge =>
  ({ id: `${source} ${target}`, source, target }) as FlowEdge;

test("a folded group is one node, and its queues lead to that", () => {
  const nodes = ["scan_1", "filter_1", "sort_1", "collect_1"].map((id, i) => node(id, i * 300));
  const edges = [
    edge("scan_1", "filter_1"),
    edge("filter_1", "sort_1"),
    edge("sort_1", "collect_1"),
  ];
  const drawn = withGroups(nodes, edges, groupsOf(grouped()));
  const [box, ...cards] = drawn.nodes;
  expect(groupPositionOf(box?.id ?? "")).toBe(0);
  expect(cards.map(({ id }) => id)).toEqual(["scan_1", "collect_1"]);
  expect(drawn.edges.map(({ source, target }) => [source, target])).toEqual([
    ["scan_1", box?.id],
    [box?.id, "collect_1"],
  ]);
  const open = withGroups(nodes, edges, groupsOf(changeGroup(grouped(), 0, { isFolded: false })));
  expect(open.nodes.length).toBe(5);
  expect(open.edges).toEqual(edges);
});

test("a moved group moves its modules, each once", () => {
  const nodes = [node("filter_1", 300), node("sort_1", 600)];
  const [group] = groupsOf(changeGroup(grouped(), 0, { isFolded: false }));
  if (group === undefined) throw new Error("there is no group");
  const { x, y } = boxAround(
    nodes.map(({ position }) => position),
    group.note,
  );
  const change = { id: "-group-0", type: "position", position: { x: x + 10, y }, dragging: true };
  const own = { id: "sort_1", type: "position", position: { x: 610, y: 0 }, dragging: true };
  const moved = memberChanges([change, own] as never[], nodes, [group]);
  expect(moved).toEqual([own, { ...own, id: "filter_1", position: { x: 310, y: 0 } }]);
});

test("no id of a module is that of a group", () => {
  forSeeds(300, (random) => expect(groupPositionOf(encodeId(random.text()))).toBeUndefined());
});

test("laid out, the box of a group holds no other module", () => {
  const flow = grouped();
  const positions = autoLayout(flow);
  const at = (id: string) => positions.get(id) ?? { x: 0, y: 0 };
  const box = boxAround(["filter_1", "sort_1"].map(at), "");
  for (const { x, y } of ["scan_1", "collect_1"].map(at)) {
    const isApart =
      x + CARD_SIZE.width <= box.x ||
      x >= box.x + box.width ||
      y + CARD_SIZE.height <= box.y ||
      y >= box.y + box.height;
    expect(isApart).toBe(true);
  }
});
