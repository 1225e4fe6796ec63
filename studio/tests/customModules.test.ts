// Custom modules in palette, forms and code.

import { expect, test } from "vitest";
import { check } from "../src/document/check";
import { bind, setOption, unbind, valueAt } from "../src/document/configEdits";
import { customSpecOf, isCustom } from "../src/document/customModules";
import { attach, placeNamed, queueBetween } from "../src/document/edits";
import { type Flow, moduleOf, newFlow } from "../src/document/flow";
import { portSide } from "../src/document/ports";
import { readPython } from "../src/document/python/readPython";
import { writePython } from "../src/document/python/writePython";
import { BUILT_IN, type Spec, specsOf } from "../src/document/specs";

const CLEAN: Spec = {
  name: "flows/clean.py:Clean",
  summary: "Keeps what is clean.",
  detail: "",
  inputs: ["in"],
  outputs: ["clean", "dirty"],
  order: "any",
  effect: "pure",
  parallel: true,
  wants_memory: true,
  config: {
    type: "object",
    properties: { column: { type: "string" }, most: { type: "integer", default: 3 } },
    required: ["column"],
    additionalProperties: false,
  },
  own: {
    title: "Clean",
    file: "flows/clean.py",
    module: "python",
    option: "module",
    arguments: "kwargs",
  },
};
const SPECS = specsOf([...BUILT_IN.values(), CLEAN]);
const OWN = isCustom(CLEAN) ? CLEAN : undefined;

function placed(): { flow: Flow; id: string } {
  return placeNamed(newFlow(), SPECS, CLEAN.name, { x: 0, y: 0 });
}

function clean(flow: Flow) {
  const module = moduleOf(flow, "python_1");
  if (module === undefined || OWN === undefined) throw new Error("no module");
  return { module, own: OWN, column: { spec: OWN, argument: "column" } };
}

test("a custom module is placed as the module that runs it, with its own ports", () => {
  const { flow, id } = placed();
  const { module } = clean(flow);
  expect([id, module.module, module.config.get("module")]).toEqual([
    "python_1",
    "python",
    "flows/clean.py:Clean",
  ]);
  expect(customSpecOf(SPECS, module)).toBe(CLEAN);
  expect(customSpecOf(BUILT_IN, module)).toBeUndefined();
  expect(portSide(SPECS, module, "outputs", new Map()).names).toEqual(["clean", "dirty"]);
  const sink = placeNamed(flow, SPECS, "collect", { x: 0, y: 0 });
  const ends = [
    { id, port: "dirty" },
    { id: sink.id, port: "in" },
  ] as const;
  const attached = attach(sink.flow, SPECS, queueBetween(sink.flow, SPECS, ...ends));
  expect(attached.queues[0]).toMatchObject({ output: "dirty", input: undefined });
  const messages = check(attached, SPECS).map(({ message }) => message);
  expect(messages).toContain("output `clean` goes nowhere");
  expect(messages).toContain("missing field `column`");
});

test("positional arguments of a custom module become named", () => {
  const { flow } = placed();
  const { module, own, column } = clean(flow);
  const config = new Map([...module.config, ["args", ["a"]] as const]);
  const written = { ...flow, modules: [{ ...module, config }] };
  expect(valueAt(clean(written).module, column)).toBe("a");
  const set = setOption(written, "python_1", { spec: own, argument: "most" }, 7);
  const kwargs = new Map<string, unknown>([
    ["column", "a"],
    ["most", 7],
  ]);
  expect(clean(set).module.config).toEqual(
    new Map<string, unknown>([
      ["module", CLEAN.name],
      ["kwargs", kwargs],
    ]),
  );
  const [wrong] = check(setOption(set, "python_1", column, 5), SPECS).filter(
    ({ option }) => option === "column",
  );
  expect(wrong?.message).toBe("5 is not a text");
});

test("a bound argument of a custom module round-trips through Python", () => {
  const { column } = clean(placed().flow);
  const set = setOption(placed().flow, "python_1", column, "a");
  const bound = bind(set, "python_1", column, "which");
  expect(writePython(bound, SPECS)).toContain(
    'eu.python("flows/clean.py:Clean", kwargs={"column": eu.var("which")})',
  );
  expect(readPython(writePython(bound, SPECS), SPECS).flow).toEqual(bound);
  expect(valueAt(clean(unbind(bound, "python_1", column)).module, column)).toBe("a");
});
