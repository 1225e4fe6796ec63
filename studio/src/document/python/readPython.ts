// Reads the Python that builds a flow without running it: assignments, calls and literals in the
// manual's style. Lines that do not concern the flow are ignored; lines that may build it in a way
// that is not understood are errors.

import { DOCUMENT_VERSION, EMPTY_OBJECT, type Flow, NO_STRAYS } from "../flow";
import { sortByName } from "../openDocument";
import type { Specs } from "../specs";
import { evaluate, mayBuild, type Scope, unknownValue } from "./evaluate";
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
  /** Numbers of lines that do not contribute to the flow and are lost. */
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
  attempt(() => {
    const read = tokenize(text);
    lines = read.lines;
    program.ignoredLines.push(...read.comments);
  });
  for (const statement of statementsOf(lines)) attempt(() => program.read(statement));
  if (problems.length === 0) attempt(() => program.flow());
  const ignoredLines = [...new Set(program.ignoredLines)].sort((a, b) => a - b);
  return problems.length > 0
    ? { problems, ignoredLines }
    : { flow: program.flow(), problems, ignoredLines };
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

class ProgramReader {
  readonly ignoredLines: number[] = [];
  private readonly scope: Scope = new Map();

  constructor(private readonly specs: Specs) {}

  read({ line, block }: Statement): void {
    const first = line.tokens[0];
    const word = first?.kind === "name" || first?.kind === "operator" ? first.text : "";
    if (DEFINITION_KEYWORDS.has(word)) this.define(line, block);
    else if (BLOCK_KEYWORDS.has(word) && (block.length > 0 || word !== "match"))
      this.pass(line, block);
    else if (block.length > 0) throw new CodeError("the line is too far in", startOf(block[0]));
    else if (word === "import" || word === "from") this.import(new ExpressionParser(line), line);
    else if (SKIPPED_STATEMENTS.has(word)) this.pass(line, []);
    else this.simple(new ExpressionParser(line), line);
  }

  /** The flow that the program builds. */
  flow(): Flow {
    const flows = new Map<string, FlowBuilder>();
    for (const [name, value] of this.scope) if (value.kind === "flow") flows.set(name, value.flow);
    const [only, ...more] = new Set(flows.values());
    const chosen = flows.get("flow") ?? (more.length === 0 ? only : undefined);
    if (chosen !== undefined) return toFlow(chosen);
    const what = more.length > 0 ? "several flows" : "no flow";
    const remedy = 'name the flow `flow`: flow = eu.Flow("name")';
    throw new CodeError(`the program leaves ${what} behind`, { line: 1, column: 1 }, remedy);
  }

  private define(line: LogicalLine, block: readonly LogicalLine[]): void {
    const names = namesIn([line, ...block].flatMap(({ tokens }) => tokens));
    const name = names.find((name) => !DEFINITION_KEYWORDS.has(name)) ?? "";
    const isBuilding = mayBuild(namesIn(block.flatMap(({ tokens }) => tokens)));
    this.scope.set(name, { kind: "defined", name, builds: isBuilding });
    this.ignoredLines.push(startOf(line).line);
  }

  /** Skips a statement that is not run; names that it assigns become unknown. */
  private pass(line: LogicalLine, block: readonly LogicalLine[]): void {
    if (isMain(line)) return;
    this.ignoredLines.push(startOf(line).line);
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
      else this.importFrom(syntax.path(), syntax);
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
      if (!isPackage) this.ignoredLines.push(startOf(line).line);
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
  private simple(syntax: ExpressionParser, line: LogicalLine): void {
    const targets: SyntaxTree[] = [];
    let tree = syntax.expressions();
    if (syntax.take(":")) {
      syntax.expression();
      if (syntax.isAtEnd()) return;
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
    if (!isOfFlow && !isLayout) this.ignoredLines.push(startOf(line).line);
  }

  private assign(target: SyntaxTree, value: Value, place: SourcePosition): void {
    if (target.kind === "name") {
      this.scope.set(target.name, value);
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
