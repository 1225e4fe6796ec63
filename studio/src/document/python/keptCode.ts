// Collects the parts of a program that are no part of its flow, by the statement that they precede.

import { type CodeBlocks, moduleAnchor } from "../code/codeBlocks";
import type { FlowBuilder } from "./values";

/** What a statement of the program does. */
export type Effect =
  /** It is no part of the flow. */
  | { readonly kind: "kept" }
  /** It runs the flow. */
  | { readonly kind: "main" }
  /** It is written again at an anchor; without one, as a part of a later statement. */
  | { readonly kind: "flow"; readonly anchor: string | undefined };

/** The lines that a statement takes, from 1, both included. */
export interface LineRange {
  readonly start: number;
  readonly end: number;
}

/** How generated programs run their flow. */
export const STANDARD_MAIN = 'if __name__ == "__main__":\n    print(flow.go())';

export class KeptCode {
  private readonly lines: readonly string[];
  private readonly blocks = new Map<string, string>();
  /** Lines since the last anchor. */
  private pending: string[] = [];
  private taken = 0;
  private isMain = false;
  private readonly shared = new Set<number>();

  constructor(
    text: string,
    private readonly comments: ReadonlyMap<number, string>,
  ) {
    this.lines = text.replace(/^\ufeff/, "").split(/\r\n|\n|\r/);
  }

  /** Adds the next statement; `next` is the first line of the one after it. */
  add({ start, end }: LineRange, next: number, effect: Effect): void {
    this.takeTo(start - 1);
    const isShared = this.taken >= start || next <= end;
    if (effect.kind === "flow") {
      for (let line = this.taken + 1; line <= end; line += 1) {
        const comment = this.comments.get(line);
        if (comment !== undefined) this.pending.push(comment);
      }
      if (effect.anchor !== undefined) this.flush(this.isMain ? "main" : effect.anchor);
      this.taken = Math.max(this.taken, end);
      return;
    }
    if (effect.kind === "main" && !this.isMain) {
      this.flush("end");
      this.isMain = true;
    }
    if (isShared) this.shared.add(start);
    else {
      this.takeTo(end);
      this.shared.delete(start);
    }
  }

  /** Numbers of lines that cannot be kept: they hold a statement of the flow as well. */
  get lost(): readonly number[] {
    return [...this.shared];
  }

  /** The blocks of the whole program. */
  end(): CodeBlocks {
    this.takeTo(this.lines.length);
    this.flush(this.isMain ? "main" : "end");
    if (this.blocks.get("main") === STANDARD_MAIN) this.blocks.delete("main");
    return this.blocks;
  }

  private takeTo(line: number): void {
    if (line > this.taken) this.pending.push(...this.lines.slice(this.taken, line));
    this.taken = Math.max(this.taken, line);
  }

  private flush(anchor: string): void {
    const text = this.pending.join("\n").replace(/^(?:[ \t]*\n)+|\s+$/g, "");
    this.pending = [];
    if (text === "") return;
    const before = this.blocks.get(anchor);
    this.blocks.set(anchor, before === undefined ? text : `${before}\n${text}`);
  }
}

/** How much of a flow is built. */
export interface BuildState {
  readonly isThere: boolean;
  readonly modules: number;
  readonly queues: number;
  readonly variables: number;
}

export function buildState(flow: FlowBuilder, isThere: boolean): BuildState {
  const { modules, queues, variables } = flow;
  return {
    isThere,
    modules: modules.length,
    queues: queues.length,
    variables: variables.size,
  };
}

/** The anchor of a statement that placed modules, attached queues or declared variables. */
export function anchorOf(
  { modules }: FlowBuilder,
  before: BuildState,
  after: BuildState,
): string | undefined {
  const placed = modules[before.modules];
  if (after.modules > before.modules && placed !== undefined) return moduleAnchor(placed.id);
  if (after.isThere && !before.isThere) return "flow";
  return (["queues", "variables"] as const).find((part) => after[part] > before[part]);
}
