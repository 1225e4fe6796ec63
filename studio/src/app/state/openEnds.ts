// Closes the open ends of a flow for the engine's check. A source reads only the columns that
// somebody needs, so behind an open end most columns would be unknown while a flow is drawn.

import { type Flow, idsOf, newModule, newQueue, nextId } from "../../document/flow";
import { attachmentsOf, endsOf, portSide } from "../../document/ports";
import type { Specs } from "../../document/specs";

/** The flow with a `collect` at each output that is attached nowhere, behind all that is there. */
export function closeOpenEnds(flow: Flow, specs: Specs): Flow {
  const ends = endsOf(flow, "outputs");
  const ids = idsOf(flow);
  const open = flow.modules.flatMap((module) => {
    const { names } = portSide(specs, module, "outputs", ends);
    const attached = new Set(attachmentsOf(specs, module, "outputs", ends).map(({ port }) => port));
    return names
      .filter((name) => !attached.has(name))
      .map((name) => ({ from: module.id, output: names.length > 1 ? name : undefined }));
  });
  if (open.length === 0) return flow;
  const sinks = open.map(() => {
    const id = nextId(ids, "collect");
    ids.add(id);
    return id;
  });
  const queues = open.map(({ from, output }, i) => ({ ...newQueue(from, sinks[i] ?? ""), output }));
  return {
    ...flow,
    modules: [...flow.modules, ...sinks.map((id) => newModule(id, "collect"))],
    queues: [...flow.queues, ...queues],
  };
}
