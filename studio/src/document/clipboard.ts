// Copies modules as text and pastes them. The text is a flow document, so anything that reads flows
// reads it too.

import { type Flow, idsOf, newFlow, nextId, variablesIn } from "./flow";
import { appendGroups, entriesOf, groupsOf } from "./groups";
import type { Json } from "./json";
import { type Position, positionsOf, withPositions } from "./layout";
import { openDocument, sortByName } from "./openDocument";
import { EditError } from "./problem";
import { readPython } from "./python/readPython";
import type { Specs } from "./specs";
import { writeDocument } from "./writeDocument";

/** The text of modules with the queues between them and the variables they use. */
export function copyModules(flow: Flow, ids: ReadonlySet<string>): string {
  const modules = flow.modules.filter(({ id }) => ids.has(id));
  const used = new Set(modules.flatMap(({ config }) => [...config.values()].flatMap(variablesIn)));
  const positions = [...positionsOf(flow)].filter(([id]) => ids.has(id));
  const groups = groupsOf(flow).filter(({ modules }) => modules.every((id) => ids.has(id)));
  const part: Flow = {
    ...newFlow(flow.name),
    layout: layoutOf(entriesOf(flow).filter((_, i) => groups.some((one) => one.position === i))),
    variables: new Map([...flow.variables].filter(([name]) => used.has(name))),
    modules,
    queues: flow.queues.filter(({ from, to }) => ids.has(from) && ids.has(to)),
  };
  return writeDocument(positions.length > 0 ? withPositions(part, new Map(positions)) : part);
}

/**
 * Adds the modules of a text, a document or Python, moved by `offset`. Taken ids get another
 * number; existing variables keep their definition.
 */
export function pasteText(
  flow: Flow,
  specs: Specs,
  text: string,
  offset: Position,
): { flow: Flow; ids: ReadonlySet<string> } {
  const part = parseFlow(text, specs);
  const taken = idsOf(flow);
  const idOf = new Map<string, string>();
  for (const { id, module } of part.modules) {
    const free = taken.has(id) ? nextId(taken, module) : id;
    taken.add(free);
    idOf.set(id, free);
  }
  const now = (id: string) => idOf.get(id) ?? id;
  const positions = [...positionsOf(part)]
    .filter(([id]) => idOf.has(id))
    .map(([id, { x, y }]) => [now(id), { x: x + offset.x, y: y + offset.y }] as const);
  const pasted: Flow = {
    ...flow,
    variables: sortByName(new Map([...part.variables, ...flow.variables])),
    modules: [...flow.modules, ...part.modules.map((one) => ({ ...one, id: now(one.id) }))],
    queues: [
      ...flow.queues,
      ...part.queues
        .filter(({ from, to }) => idOf.has(from) && idOf.has(to))
        .map((queue) => ({ ...queue, from: now(queue.from), to: now(queue.to) })),
    ],
  };
  const drawn = positions.length > 0 ? withPositions(pasted, new Map(positions)) : pasted;
  return { flow: appendGroups(drawn, part, now), ids: new Set(idOf.values()) };
}

function layoutOf(groups: readonly Json[]): Flow["layout"] {
  return groups.length > 0 ? new Map([["groups", groups]]) : undefined;
}

function parseFlow(text: string, specs: Specs): Flow {
  if (text.trimStart().startsWith("{")) {
    const { flow, isComplete, problems } = openDocument(text);
    if (isComplete && flow.modules.length > 0) return flow;
    throw new EditError(problems[0] ?? { message: "the text has no modules" });
  }
  const { flow, problems } = readPython(text, specs);
  if (flow !== undefined && flow.modules.length > 0) return flow;
  const message = problems[0]?.message ?? "it has no modules";
  throw new EditError({ message: `the text is no flow: ${message}` });
}
