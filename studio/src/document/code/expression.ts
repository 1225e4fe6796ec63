// Expressions that are laid out on one line where they fit and on several where they do not, as
// crates/flow/src/code/expr.rs does.

/** Text, or a bracket with members. */
export type Expression = string | Group;

export interface Group {
  /** A name and a bracket, say. */
  readonly open: string;
  /** What stands before each member (`key: `, `name=`), and the member. */
  readonly members: readonly (readonly [before: string, member: Expression])[];
  readonly close: string;
}

/** Columns a line of generated code may have. */
const COLUMNS = 96;

export function group(open: string, close: string, ...members: Group["members"]): Group {
  return { open, close, members };
}

/** The group and one more member. */
export function withMember(group: Group, before: string, member: Expression): Group {
  return { ...group, members: [...group.members, [before, member]] };
}

/** The expression as text, `indent` spaces from the left, after `before`, followed by `after`. */
export function layOut(
  expression: Expression,
  indent: number,
  before: string,
  after: string,
): string {
  const margin = " ".repeat(indent);
  const line = `${margin}${before}${onOneLine(expression)}${after}`;
  if (typeof expression === "string" || expression.members.length === 0) return line;
  if ([...line].length <= COLUMNS) return line;
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
