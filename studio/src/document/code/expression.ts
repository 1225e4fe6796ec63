// Lays expressions out on one line if they fit, else on several, like
// crates/flow/src/code/expr.rs.

/** A text, or brackets with members. */
export type Expression = string | Group;

export interface Group {
  /** The text up to and including the opening bracket. */
  readonly open: string;
  /** Each member with its prefix (`key: `, `name=`). */
  readonly members: readonly (readonly [before: string, member: Expression])[];
  readonly close: string;
}

/** Width of generated code. */
const COLUMNS_MAX = 96;

export function group(open: string, close: string, ...members: Group["members"]): Group {
  return { open, close, members };
}

/** Appends a member to a group. */
export function withMember(group: Group, before: string, member: Expression): Group {
  return { ...group, members: [...group.members, [before, member]] };
}

/** Prints an expression between `before` and `after`, indented by `indent` spaces. */
export function layOut(
  expression: Expression,
  indent: number,
  before: string,
  after: string,
): string {
  const margin = " ".repeat(indent);
  const line = `${margin}${before}${onOneLine(expression)}${after}`;
  if (typeof expression === "string" || expression.members.length === 0) return line;
  if ([...line].length <= COLUMNS_MAX) return line;
  const { open, members, close } = expression;
  const lines = members.map(([name, member]) => layOut(member, indent + 4, name, ","));
  const first = `${margin}${before}${open.trimEnd()}`;
  return [first, ...lines, `${margin}${close.trimStart()}${after}`].join("\n");
}

function onOneLine(expression: Expression): string {
  if (typeof expression === "string") return expression;
  const members = expression.members.map(([name, member]) => name + onOneLine(member));
  return expression.open + members.join(", ") + expression.close;
}
