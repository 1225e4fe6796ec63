// React Flow nodes and edges of a flow. Unchanged ones stay the same objects, so that React skips
// them.

import { MarkerType } from "@xyflow/react";
import { customSpecOf, specFor } from "../../document/customModules";
import type { Flow } from "../../document/flow";
import { attachmentsOf, endsOf, portSide } from "../../document/ports";
import { problemText } from "../../document/problem";
import type { Specs } from "../../document/specs";
import { portKey } from "../state/queueKeys";
import type { EngineCheck, StudioState } from "../state/studioStore";
import { encodeId } from "./canvasId";
import type { FlowNode } from "./ModuleNode";
import { categoryOf } from "./moduleCategory";
import type { FlowEdge } from "./QueueEdge";

/** In user space units: independent of the edge's width. */
const ARROW = {
  type: MarkerType.ArrowClosed,
  markerUnits: "userSpaceOnUse",
  width: 16,
  height: 16,
} as const;

type GraphInput = Pick<StudioState, "specs" | "positions" | "problems" | "selectedModules"> & {
  readonly flow: Flow;
};

/** A node for each module; unchanged nodes of `before` are reused. */
export function toNodes(input: GraphInput, before: readonly FlowNode[]): FlowNode[] {
  const { flow, specs, positions, problems, selectedModules } = input;
  const known = new Map(before.map((node) => [node.id, node]));
  const ends = { inputs: endsOf(flow, "inputs"), outputs: endsOf(flow, "outputs") };
  const wrong = new Map(
    problems.map((found) => {
      const id = found.module ?? flow.queues[found.queue ?? -1]?.to ?? "";
      return [id, problemText({ message: found.message, remedy: found.remedy })];
    }),
  );
  return flow.modules.map((module) => {
    const ports = (direction: "inputs" | "outputs") => {
      const { names } = portSide(specs, module, direction, ends[direction]);
      const isMany = specFor(specs, module)?.[direction] === "many";
      return isMany ? [...names, String(names.length)] : names;
    };
    const [category, icon] = categoryOf(customSpecOf(specs, module) ?? specs.get(module.module));
    const data = {
      module,
      category,
      icon,
      title: customSpecOf(specs, module)?.own.title ?? module.module,
      inputs: ports("inputs"),
      outputs: ports("outputs"),
      problem: wrong.get(module.id),
    };
    const position = positions.get(module.id) ?? { x: 0, y: 0 };
    const node: FlowNode = {
      id: encodeId(module.id),
      type: "module",
      data,
      position,
      selected: selectedModules.has(module.id),
      ariaLabel: `${module.id}: ${specFor(specs, module)?.summary ?? module.module}`,
    };
    return reuseNode(known.get(node.id), node);
  });
}

function reuseNode(old: FlowNode | undefined, node: FlowNode): FlowNode {
  if (old === undefined) return node;
  const { module, inputs, outputs, problem } = node.data;
  const isSameData =
    old.data.module === module &&
    old.data.title === node.data.title &&
    old.data.category === node.data.category &&
    old.data.problem === problem &&
    old.data.inputs.join() === inputs.join() &&
    old.data.outputs.join() === outputs.join();
  const isSame =
    isSameData &&
    old.selected === node.selected &&
    old.position.x === node.position.x &&
    old.position.y === node.position.y;
  return isSame ? old : { ...old, ...node, data: isSameData ? old.data : node.data };
}

/** The edges, with unchanged ones of `before` reused; `before` itself if all are. */
export function reuseEdges(edges: FlowEdge[], before: FlowEdge[]): FlowEdge[] {
  const known = new Map(before.map((edge) => [edge.id, edge]));
  const reused = edges.map((edge) => {
    const old = known.get(edge.id);
    return old !== undefined && isSameEdge(old, edge) ? old : edge;
  });
  const isSame = reused.length === before.length && reused.every((edge, i) => edge === before[i]);
  return isSame ? before : reused;
}

/** The fields of an edge that can change. */
const EDGE_FIELDS = [
  "source",
  "sourceHandle",
  "target",
  "targetHandle",
  "selected",
  "className",
  "ariaLabel",
] as const;

function isSameEdge(old: FlowEdge, edge: FlowEdge): boolean {
  const isSameData =
    old.data?.queueKey === edge.data?.queueKey && old.data?.kind === edge.data?.kind;
  return isSameData && EDGE_FIELDS.every((field) => old[field] === edge[field]);
}

/** An edge for each queue whose two ports exist. */
export function toEdges(
  flow: Flow,
  specs: Specs,
  selected: ReadonlySet<number>,
  { queues, problems }: EngineCheck,
): FlowEdge[] {
  const port = new Map<string, string>();
  for (const direction of ["inputs", "outputs"] as const) {
    const ends = endsOf(flow, direction);
    for (const module of flow.modules) {
      for (const end of attachmentsOf(specs, module, direction, ends)) {
        if (typeof end.port === "string") port.set(`${direction} ${end.queue}`, end.port);
      }
    }
  }
  const kinds = new Map(queues.map((one) => [portKey([one.from, one.output]), one.kind]));
  const wrong = new Map(problems.map(({ queue, message }) => [queue, message]));
  return flow.queues.flatMap(({ from, to, queue }, number) => {
    const [output, input] = [port.get(`outputs ${number}`), port.get(`inputs ${number}`)];
    if (output === undefined || input === undefined) return [];
    const queueKey = portKey([from, output]);
    const kind = queue ?? kinds.get(queueKey) ?? "distributed";
    const problem = wrong.get(number);
    return [
      {
        id: String(number),
        type: "queue",
        source: encodeId(from),
        sourceHandle: encodeId(output),
        target: encodeId(to),
        targetHandle: encodeId(input),
        selected: selected.has(number),
        className: `queue-${kind}${problem === undefined ? "" : " queue-wrong"}`,
        ariaLabel: `queue from ${from} to ${to}${problem === undefined ? "" : `: ${problem}`}`,
        interactionWidth: 24,
        markerEnd: ARROW,
        data: { queueKey, kind: problem === undefined ? kindLabel(queue, kind) : "!" },
      },
    ];
  });
}

/** The label of an edge; none for the default kind, unless the document states it. */
function kindLabel(stated: string | undefined, kind: string): string | undefined {
  return stated ?? (kind === "distributed" ? undefined : kind);
}
