// The code panel: the flow as Python, Rust or JSON. Edited text is parsed, never run, and the flow
// follows whenever it can be understood.

import { useLayoutEffect, useRef, useState } from "react";
import { codeBlocksOf } from "../../document/code/codeBlocks";
import { writeRust } from "../../document/code/writeRust";
import type { Flow } from "../../document/flow";
import { mergeCode, withoutLayout } from "../../document/mergeCode";
import { openDocument } from "../../document/openDocument";
import { readPython } from "../../document/python/readPython";
import { writePython } from "../../document/python/writePython";
import type { Specs } from "../../document/specs";
import { writeDocument } from "../../document/writeDocument";
import { applyCode, endStep, useStudio } from "../state/studioStore";
import { CodeArea } from "./CodeArea";

/** A problem of a text; without a line, of the whole text. */
interface TextProblem {
  readonly line?: number;
  readonly column?: number;
  readonly message: string;
  readonly remedy?: string | undefined;
}

/** A format in which a flow is written and read. */
interface CodeFormat {
  readonly title: string;
  readonly write: (flow: Flow, specs: Specs) => string;
  /** Whether it holds the whole document, including what this version does not understand. */
  readonly isComplete?: boolean;
  /** Without it, the text is read-only. */
  readonly read?: (text: string, specs: Specs) => TextRead;
}

interface TextRead {
  readonly flow?: Flow;
  readonly problems: readonly TextProblem[];
  /** Numbers of lines that do not contribute to the flow. */
  readonly ignoredLines?: readonly number[];
}

const FORMATS: readonly CodeFormat[] = [
  {
    title: "Python",
    write: (flow, specs) => writePython(withoutLayout(flow), specs, codeBlocksOf(flow)),
    read: readPython,
  },
  { title: "Rust", write: (flow) => writeRust(withoutLayout(flow)) },
  { title: "JSON", write: writeDocument, read: readDocument, isComplete: true },
];

function readDocument(text: string): TextRead {
  const { flow, isComplete, problems } = openDocument(text);
  if (isComplete) return { flow, problems: [] };
  return { problems: problems.map(({ place, message }) => ({ message: `${place}: ${message}` })) };
}

export function CodePanel() {
  const [title, setTitle] = useState("Python");
  const form = FORMATS.find((form) => form.title === title) ?? FORMATS[0];
  return (
    <section className="code" aria-label="Code">
      <div className="tabs" role="tablist">
        {FORMATS.map((form) => (
          <button
            type="button"
            role="tab"
            key={form.title}
            aria-selected={form.title === title}
            onClick={() => setTitle(form.title)}
          >
            {form.title}
          </button>
        ))}
      </div>
      {form !== undefined && <Editor key={title} form={form} />}
    </section>
  );
}

function Editor({ form }: { readonly form: CodeFormat }) {
  const flow = useStudio(({ history }) => history.now);
  const specs = useStudio(({ specs }) => specs);
  const [text, setText] = useState(() => form.write(flow, specs));
  const [{ problems, ignoredLines = [] }, setRead] = useState<TextRead>({ problems: [] });
  // The flow that the text was parsed into: while it is current, the text is not regenerated.
  const own = useRef<Flow | undefined>(flow);
  // In a layout effect: the next keystroke must edit the current flow's text.
  useLayoutEffect(() => {
    if (own.current === flow) return;
    own.current = flow;
    setText(form.write(flow, specs));
    setRead({ problems: [] });
  }, [flow, specs, form]);
  const type = (typed: string) => {
    setText(typed);
    const read = form.read?.(typed, specs) ?? { problems: [] };
    setRead(read);
    if (read.flow === undefined) return;
    const { flow: parsed } = read;
    applyCode((flow) => (form.isComplete ? parsed : mergeCode(flow, parsed)));
    own.current = useStudio.getState().history.now;
  };
  const restore = () => {
    setText(form.write(flow, specs));
    setRead({ problems: [] });
  };
  return (
    <>
      <CodeArea
        aria-label={`The flow in ${form.title}`}
        readOnly={form.read === undefined}
        value={text}
        wrong={new Set(problems.map(({ line }) => line))}
        onChange={(event) => type(event.target.value)}
        onBlur={() => {
          endStep();
          if (problems.length === 0) restore();
        }}
      />
      {ignoredLines.length > 0 && (
        <p className="passed-over quiet">
          Beside a statement of the flow on the same line, and not kept: line{" "}
          {ignoredLines.join(", ")}.
        </p>
      )}
      {problems.length > 0 && (
        <div className="problems" role="status">
          {problems.map(({ line, column, message, remedy }) => (
            <p key={`${line} ${column} ${message}`} className="wrong-text">
              {line !== undefined && `line ${line}, column ${column}: `}
              {message}
              {remedy !== undefined && <span className="quiet"> {remedy}</span>}
            </p>
          ))}
          <button type="button" onClick={restore}>
            Back to what is drawn
          </button>
        </div>
      )}
    </>
  );
}
