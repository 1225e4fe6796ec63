// Reads the Python that builds a flow without running it: assignments, calls and literals in the
// manual's style. Lines that do not concern the flow are kept as blocks of code; lines that may
// build it in a way that is not understood are errors.

import { withCodeBlocks } from "../code/codeBlocks";
import { DOCUMENT_VERSION, EMPTY_OBJECT, type Flow, NO_STRAYS } from "../flow";
import { sortByName } from "../openDocument";
import type { Specs } from "../specs";
import { evaluate, mayBuild, type Scope, unknownValue } from "./evaluate";
import {
  anchorOf,
  type BuildState,
  buildState,
  type Effect,
  KeptCode,
  type LineRange,
} from "./keptCode";
import { ExpressionParser, namesIn, type SyntaxTree } from "./parser";
import { CodeError, type LogicalLine, type SourcePosition, tokenize } from "./tokenizer";
import { type FlowBuilder, plainJson, type Value } from "./values";

/** A problem of the code with its position. */
export interface CodeProblem extends SourcePosition {
  readonly message: string;
  readonly remedy?: string | undefined;
}

export interface PythonRead {
  /** The flow, if there are no problems. */
  readonly flow?: Flow;
  readonly problems: readonly CodeProblem[];
  /** Numbers of lines that do not contribute to the flow and cannot be kept beside it. */
  readonly ignoredLines: readonly number[];
}

/** Reads a program and returns the flow in its variable `flow`, or else the only flow. */
export function readPython(text: string, specs: Specs): PythonRead {
  const problems: CodeProblem[] = [];
  const program = new ProgramReader(specs);
  const attempt = (read: () => void) => {
    try {
      read();
    } catch (error) {
      if (!(error instanceof CodeError)) throw error;
      const { message, place, remedy } = error;
      problems.push({ message, line: place.line, column: place.column, remedy });
    }
  };
  let lines: LogicalLine[] = [];
  let comments: ReadonlyMap<number, string> = new Map();
  attempt(() => {
    const read = tokenize(text);
    lines = read.lines;
    comments = read.comments;
  });
  const statements = statementsOf(lines);
  const steps: Step[] = [];
  for (const statement of statements) attempt(() => steps.push(program.read(statement)));
  if (problems.length === 0) attempt(() => program.flow());
  if (problems.length > 0) return { problems, ignoredLines: [] };
  const kept = new KeptCode(text, comments);
  const chosen = program.chosen();
  steps.forEach((step, i) => {
    const next = statements[i + 1];
    const nextLine = next === undefined ? Infinity : startOf(next.line).line;
    kept.add(step.lines, nextLine, effectOf(step, chosen));
  });
  const flow = withCodeBlocks(program.flow(), kept.end());
  return { flow, problems, ignoredLines: kept.lost };
}

/** A line with the block indented below it. */
interface Statement {
  readonly line: LogicalLine;
  readonly block: readonly LogicalLine[];
}

function statementsOf(lines: readonly LogicalLine[]): Statement[] {
  const statements: Statement[] = [];
  let at = 0;
  for (let line = lines[at]; line !== undefined; line = lines[at]) {
    const { indent } = line;
    let end = at + 1;
    while ((lines[end]?.indent ?? 0) > indent) end += 1;
    statements.push({ line, block: lines.slice(at + 1, end) });
    at = end;
  }
  return statements;
}

const DEFINITION_KEYWORDS = new Set(["def", "class", "async"]);
const BLOCK_KEYWORDS = new Set("if elif else for while with try except finally match @".split(" "));
const SKIPPED_STATEMENTS = new Set("pass assert del raise global nonlocal return".split(" "));

function linesOf({ line, block }: Statement): LineRange {
  return { start: startOf(line).line, end: (block.at(-1) ?? line).lastLine };
}

const NOTHING_BUILT: BuildState = { isThere: false, modules: 0, queues: 0, variables: 0 };

function sameState(a: BuildState, b: BuildState): boolean {
  const isSame = a.isThere === b.isThere && a.modules === b.modules;
  return isSame && a.queues === b.queues && a.variables === b.variables;
}

/** What the reading of a statement did. */
interface Step {
  readonly lines: LineRange;
  readonly isMain: boolean;
  readonly isImport: boolean;
  /** Whether no flow changed by it. */
  readonly isKept: boolean;
  /** Whether it names `go`, which runs a flow. */
  readonly isRun: boolean;
  /** The flows that it names or makes, before and after. */
  readonly flows: ReadonlyMap<FlowBuilder, readonly [BuildState, BuildState]>;
}

/** What a statement does for the flow that the program builds. */
function effectOf(
  { isMain, isImport, isKept, isRun, flows }: Step,
  flow: FlowBuilder | undefined,
): Effect {
  const states = flow && flows.get(flow);
  const isOther = states === undefined && flows.size > 0;
  if (isMain) return { kind: "main" };
  if (isOther) return { kind: "kept" };
  if (isKept) return { kind: isRun && states !== undefined ? "main" : "kept" };
  if (isImport) return { kind: "flow", anchor: "import" };
  return { kind: "flow", anchor: states && flow && anchorOf(flow, ...states) };
}

class ProgramReader {
  private readonly scope: Scope = new Map();
  private readonly flows = new Set<FlowBuilder>();
  /** Whether the statement that is read has no part in a flow. */
  private isKept = false;

  constructor(private readonly specs: Specs) {}

  read(statement: Statement): Step {
    const { line } = statement;
    const known = new Set(this.flows);
    const before = new Map([...known].map((flow) => [flow, buildState(flow, true)]));
    this.isKept = false;
    this.evaluate(statement);
    const names = namesIn(line.tokens);
    const [first] = line.tokens;
    const named = new Set(
      names.flatMap((name) => {
        const value = this.scope.get(name);
        return value?.kind === "flow" ? [value.flow] : [];
      }),
    );
    const flows = new Map<FlowBuilder, readonly [BuildState, BuildState]>();
    for (const flow of this.flows) {
      const after = buildState(flow, true);
      const old = before.get(flow) ?? NOTHING_BUILT;
      if (named.has(flow) || !sameState(old, after)) flows.set(flow, [old, after]);
    }
    return {
      lines: linesOf(statement),
      isMain: isMain(line),
      isImport: first?.kind === "name" && ["import", "from"].includes(first.text),
      isKept: this.isKept,
      isRun: names.includes("go"),
      flows,
    };
  }

  private evaluate({ line, block }: Statement): void {
    const first = line.tokens[0];
    const word = first?.kind === "name" || first?.kind === "operator" ? first.text : "";
    if (DEFINITION_KEYWORDS.has(word)) this.define(line, block);
    else if (BLOCK_KEYWORDS.has(word) && (block.length > 0 || word !== "match"))
      this.pass(line, block);
    else if (block.length > 0) throw new CodeError("the line is too far in", startOf(block[0]));
    else if (word === "import" || word === "from") this.import(new ExpressionParser(line), line);
    else if (SKIPPED_STATEMENTS.has(word)) this.pass(line, []);
    else this.simple(new ExpressionParser(line));
  }

  /** The flow that the program builds. */
  flow(): Flow {
    const chosen = this.chosen();
    if (chosen !== undefined) return toFlow(chosen);
    const what = this.namedFlows().size > 0 ? "several flows" : "no flow";
    const remedy = 'name the flow `flow`: flow = eu.Flow("name")';
    throw new CodeError(`the program leaves ${what} behind`, { line: 1, column: 1 }, remedy);
  }

  chosen(): FlowBuilder | undefined {
    const flows = this.namedFlows();
    const [only, ...more] = new Set(flows.values());
    return flows.get("flow") ?? (more.length === 0 ? only : undefined);
  }

  private namedFlows(): ReadonlyMap<string, FlowBuilder> {
    const flows = new Map<string, FlowBuilder>();
    for (const [name, value] of this.scope) if (value.kind === "flow") flows.set(name, value.flow);
    return flows;
  }

  private define(line: LogicalLine, block: readonly LogicalLine[]): void {
    const names = namesIn([line, ...block].flatMap(({ tokens }) => tokens));
    const name = names.find((name) => !DEFINITION_KEYWORDS.has(name)) ?? "";
    const isBuilding = mayBuild(namesIn(block.flatMap(({ tokens }) => tokens)));
    this.scope.set(name, { kind: "defined", name, builds: isBuilding });
    this.isKept = true;
  }

  /** Skips a statement that is not run; names that it assigns become unknown. */
  private pass(line: LogicalLine, block: readonly LogicalLine[]): void {
    if (isMain(line)) return;
    this.isKept = true;
    const tokens = [line, ...block].flatMap(({ tokens }) => tokens);
    const names = namesIn(tokens);
    if (mayBuild(names)) {
      const message = `\`${names[0] ?? "this"}\` is not run, and a flow is built in it`;
      throw new CodeError(message, startOf(line), "write the flow's lines one after another");
    }
    tokens.forEach((token, i) => {
      const next = tokens[i + 1];
      if (token.kind !== "name" || next?.kind !== "operator") return;
      const isSet = /^([-+*/%@&|^]|\*\*|\/\/|>>|<<|:)?=$/.test(next.text);
      if (isSet && this.scope.get(token.text)?.kind !== "flow") {
        this.scope.set(token.text, unknownValue(`\`${token.text}\` is set where nothing is run`));
      }
    });
  }

  private import(syntax: ExpressionParser, line: LogicalLine): void {
    const isFrom = syntax.takeWord("from");
    if (isFrom) {
      if (syntax.take(".")) this.pass(line, []);
      else {
        const path = syntax.path();
        this.isKept = path !== "euphrates";
        this.importFrom(path, syntax);
      }
      return;
    }
    syntax.name();
    do {
      const path = syntax.path();
      const name = syntax.takeWord("as") ? syntax.name() : undefined;
      const isPackage = path === "euphrates";
      const [top = path] = path.split(".");
      const value: Value = isPackage
        ? { kind: "package" }
        : { kind: "imported", module: name === undefined ? top : path };
      this.scope.set(name ?? top, value);
      if (!isPackage) this.isKept = true;
    } while (syntax.take(","));
  }

  private importFrom(path: string, syntax: ExpressionParser): void {
    if (!syntax.takeWord("import")) throw syntax.unexpected("`import`");
    const place = startOf(syntax.next);
    if (syntax.take("*")) return;
    const isOpen = syntax.take("(");
    do {
      if (syntax.take(")")) return;
      const name = syntax.name();
      const local = syntax.takeWord("as") ? syntax.name() : name;
      const package_: Value = { kind: "package" };
      const tree: SyntaxTree = {
        ...place,
        kind: "attribute",
        of: { ...place, kind: "name", name: "" },
        name,
      };
      const value: Value =
        path === "euphrates"
          ? evaluate(tree, new Map([["", package_]]), this.specs)
          : { kind: "imported", module: path, name };
      this.scope.set(local, value);
    } while (syntax.take(","));
    if (isOpen) syntax.take(")");
  }

  /** An expression statement or an assignment. */
  private simple(syntax: ExpressionParser): void {
    const targets: SyntaxTree[] = [];
    let tree = syntax.expressions();
    if (syntax.take(":")) {
      syntax.expression();
      this.isKept = syntax.isAtEnd();
      if (this.isKept) return;
    }
    while (syntax.take("=")) {
      targets.push(tree);
      tree = syntax.expressions();
    }
    if (!syntax.isAtEnd()) throw syntax.unexpected("the end of the line");
    const value = evaluate(tree, this.scope, this.specs);
    for (const target of targets) this.assign(target, value, tree);
    const isOfFlow = ["flow", "placed", "variable", "module"].includes(value.kind);
    const isLayout = targets.some(({ kind }) => kind === "attribute");
    this.isKept = !isOfFlow && !isLayout;
  }

  private assign(target: SyntaxTree, value: Value, place: SourcePosition): void {
    if (target.kind === "name") {
      this.scope.set(target.name, value);
      if (value.kind === "flow") this.flows.add(value.flow);
    } else if (target.kind === "attribute") {
      const of = evaluate(target.of, this.scope, this.specs);
      if (of.kind !== "flow") return;
      if (target.name !== "layout") {
        throw new CodeError(`\`${target.name}\` of a flow cannot be set`, target);
      }
      of.flow.layout = plainJson(value, place) ?? undefined;
    } else if (target.kind === "list") {
      target.items.forEach((item, i) => {
        const part = value.kind === "list" ? value.items[i] : undefined;
        this.assign(item, part ?? unknownValue("it is a part of something unknown"), place);
      });
    }
  }
}

/** Whether a line is `if __name__ == "__main__":`, whose block is ignored. */
function isMain({ tokens: [first, second] }: LogicalLine): boolean {
  const isIf = first?.kind === "name" && first.text === "if";
  return isIf && second?.kind === "name" && second.text === "__name__";
}

function startOf(from: LogicalLine | SourcePosition | undefined): SourcePosition {
  if (from === undefined) return { line: 1, column: 1 };
  const { line, column } = "tokens" in from ? startOf(from.tokens[0]) : from;
  return { line, column };
}

function toFlow(builder: FlowBuilder): Flow {
  const { name, variables, modules, queues, layout } = builder;
  return {
    version: DOCUMENT_VERSION,
    name,
    variables: sortByName(variables),
    modules: [...modules],
    queues: [...queues],
    layout,
    unknown: EMPTY_OBJECT,
    strays: NO_STRAYS,
  };
}
