// Blocks of code: the comments, imports, definitions and loops of a script, which are no part of
// the flow and are kept as they are. They lie in the document's layout, `{"code":
// {"module:scan_1": "# …"}}`, by the line of the generated program that they precede.

import type { Flow } from "../flow";
import { isObject, type Json, type JsonObject, sameJson } from "../json";

/**
 * Text by what it precedes: `import`, `flow`, `variables`, `module:<id>`, `queues` or `end`; `main`
 * replaces the lines that run the flow.
 */
export type CodeBlocks = ReadonlyMap<string, string>;

export const NO_BLOCKS: CodeBlocks = new Map();

const MODULE = "module:";

/** The block before the line that places a module. */
export function moduleAnchor(id: string): string {
  return `${MODULE}${id}`;
}

export function codeBlocksOf({ layout }: Pick<Flow, "layout">): CodeBlocks {
  const code = isObject(layout) ? layout.get("code") : undefined;
  if (!isObject(code)) return NO_BLOCKS;
  return new Map(
    [...code].flatMap(([anchor, text]) => (typeof text === "string" ? [[anchor, text]] : [])),
  );
}

/** Replaces the blocks; the flow itself if they are the same. */
export function withCodeBlocks(flow: Flow, blocks: CodeBlocks): Flow {
  const { layout } = flow;
  const before = codeBlocksOf(flow);
  if (sameJson(new Map(before), new Map(blocks))) return flow;
  const rest: Map<string, Json> = isObject(layout)
    ? new Map(layout)
    : new Map(layout === undefined ? [] : [["other", layout]]);
  rest.delete("code");
  const code: JsonObject = new Map(blocks);
  if (code.size > 0) rest.set("code", code);
  return { ...flow, layout: rest.size === 0 ? undefined : rest };
}

/** Follows renamed modules; the block of a removed one moves to the end. */
export function renameCodeBlocks(flow: Flow, idOf: (id: string) => string | undefined): Flow {
  const blocks = codeBlocksOf(flow);
  if (blocks.size === 0) return flow;
  const renamed = new Map<string, string>();
  for (const [anchor, text] of blocks) {
    const id = anchor.startsWith(MODULE) ? anchor.slice(MODULE.length) : undefined;
    const now = id === undefined ? undefined : idOf(id);
    const place = id === undefined ? anchor : now === undefined ? "end" : moduleAnchor(now);
    const there = renamed.get(place);
    renamed.set(place, there === undefined ? text : `${there}\n${text}`);
  }
  return withCodeBlocks(flow, renamed);
}
