// React Flow nodes and edges of a flow. Unchanged ones stay the same objects, so that React skips
// them.

import { MarkerType } from "@xyflow/react";
import { ownOf, specFor } from "../../document/customModules";
import type { Flow } from "../../document/flow";
import { attachedTo, endsOf, sideOf } from "../../document/ports";
import { told } from "../../document/problem";
import type { Specs } from "../../document/specs";
import { endKey } from "../state/queueKeys";
import type { EngineCheck, Studio } from "../state/studioStore";
import { encoded } from "./canvasId";
import type { CardNode } from "./ModuleNode";
import type { LineEdge } from "./QueueEdge";

/** In user space units: independent of the edge's width. */
const ARROW = {
  type: MarkerType.ArrowClosed,
  markerUnits: "userSpaceOnUse",
  width: 16,
  height: 16,
} as const;

type Shown = Pick<Studio, "specs" | "places" | "problems" | "modules"> & { readonly flow: Flow };

/** A node for each module; unchanged nodes of `before` are reused. */
export function cardsOf(shown: Shown, before: readonly CardNode[]): CardNode[] {
  const { flow, specs, places, problems, modules } = shown;
  const known = new Map(before.map((card) => [card.id, card]));
  const ends = { inputs: endsOf(flow, "inputs"), outputs: endsOf(flow, "outputs") };
  const wrong = new Map(
    problems.map((found) => {
      const id = found.module ?? flow.queues[found.queue ?? -1]?.to ?? "";
      return [id, told({ message: found.message, remedy: found.remedy })];
    }),
  );
  return flow.modules.map((module) => {
    const ports = (direction: "inputs" | "outputs") => {
      const { names } = sideOf(specs, module, direction, ends[direction]);
      const isMany = specFor(specs, module)?.[direction] === "many";
      return isMany ? [...names, String(names.length)] : names;
    };
    const data = {
      module,
      title: ownOf(specs, module)?.own.title ?? module.module,
      inputs: ports("inputs"),
      outputs: ports("outputs"),
      problem: wrong.get(module.id),
    };
    const position = places.get(module.id) ?? { x: 0, y: 0 };
    const card: CardNode = {
      id: encoded(module.id),
      type: "module",
      data,
      position,
      selected: modules.has(module.id),
      ariaLabel: `${module.id}: ${specFor(specs, module)?.summary ?? module.module}`,
    };
    return kept(known.get(card.id), card);
  });
}

function kept(old: CardNode | undefined, card: CardNode): CardNode {
  if (old === undefined) return card;
  const { module, inputs, outputs, problem } = card.data;
  const isSameData =
    old.data.module === module &&
    old.data.title === card.data.title &&
    old.data.problem === problem &&
    old.data.inputs.join() === inputs.join() &&
    old.data.outputs.join() === outputs.join();
  const isSame =
    isSameData &&
    old.selected === card.selected &&
    old.position.x === card.position.x &&
    old.position.y === card.position.y;
  return isSame ? old : { ...old, ...card, data: isSameData ? old.data : card.data };
}

/** The edges, with unchanged ones of `before` reused; `before` itself if all are. */
export function keptLines(lines: LineEdge[], before: LineEdge[]): LineEdge[] {
  const known = new Map(before.map((line) => [line.id, line]));
  const kept = lines.map((line) => {
    const old = known.get(line.id);
    return old !== undefined && isSameLine(old, line) ? old : line;
  });
  const isSame = kept.length === before.length && kept.every((line, i) => line === before[i]);
  return isSame ? before : kept;
}

/** The fields of an edge that can change. */
const SHOWN = [
  "source",
  "sourceHandle",
  "target",
  "targetHandle",
  "selected",
  "className",
  "ariaLabel",
] as const;

function isSameLine(old: LineEdge, line: LineEdge): boolean {
  const isSameData = old.data?.feed === line.data?.feed && old.data?.kind === line.data?.kind;
  return isSameData && SHOWN.every((field) => old[field] === line[field]);
}

/** An edge for each queue whose two ports exist. */
export function linesOf(
  flow: Flow,
  specs: Specs,
  selected: ReadonlySet<number>,
  { queues, problems }: EngineCheck,
): LineEdge[] {
  const port = new Map<string, string>();
  for (const direction of ["inputs", "outputs"] as const) {
    const ends = endsOf(flow, direction);
    for (const module of flow.modules) {
      for (const end of attachedTo(specs, module, direction, ends)) {
        if (typeof end.port === "string") port.set(`${direction} ${end.queue}`, end.port);
      }
    }
  }
  const kinds = new Map(queues.map((one) => [endKey([one.from, one.output]), one.kind]));
  const wrong = new Map(problems.map(({ queue, message }) => [queue, message]));
  return flow.queues.flatMap(({ from, to, queue }, number) => {
    const [output, input] = [port.get(`outputs ${number}`), port.get(`inputs ${number}`)];
    if (output === undefined || input === undefined) return [];
    const feed = endKey([from, output]);
    const kind = queue ?? kinds.get(feed) ?? "distributed";
    const problem = wrong.get(number);
    return [
      {
        id: String(number),
        type: "queue",
        source: encoded(from),
        sourceHandle: encoded(output),
        target: encoded(to),
        targetHandle: encoded(input),
        selected: selected.has(number),
        className: `queue-${kind}${problem === undefined ? "" : " queue-wrong"}`,
        ariaLabel: `queue from ${from} to ${to}${problem === undefined ? "" : `: ${problem}`}`,
        interactionWidth: 24,
        markerEnd: ARROW,
        data: { feed, kind: problem === undefined ? kindShown(queue, kind) : "!" },
      },
    ];
  });
}

/** The label of an edge; none for the default kind, unless the document states it. */
function kindShown(said: string | undefined, kind: string): string | undefined {
  return said ?? (kind === "distributed" ? undefined : kind);
}
