// A text area for code: long lines wrap, and coloured lines with numbers lie exactly behind the
// text.

import { memo, type TextareaHTMLAttributes } from "react";
import { highlight } from "./highlight";

interface Props extends Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, "value"> {
  readonly value: string;
  /** Numbers of lines that have a mark. */
  readonly wrong?: ReadonlySet<number | undefined>;
}

export function CodeArea({ value, wrong, ...area }: Props) {
  return (
    <div className="editor">
      <div className="editor-text">
        <pre aria-hidden="true">
          {value.split("\n").map((line, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: lines have no id but their number
            <Line key={i} number={i + 1} text={line} isWrong={wrong?.has(i + 1) === true} />
          ))}
        </pre>
        <textarea {...area} value={value} spellCheck={false} autoCapitalize="off" />
      </div>
    </div>
  );
}

interface LineProps {
  readonly number: number;
  readonly text: string;
  readonly isWrong: boolean;
}

const Line = memo(({ number, text, isWrong }: LineProps) => (
  <div className="line" data-number={`${isWrong ? "▸" : ""}${number}`}>
    {highlight(text).map(({ text, kind }, i) => (
      // biome-ignore lint/suspicious/noArrayIndexKey: parts have no id but their position
      <span key={i} className={kind && `code-${kind}`}>
        {text}
      </span>
    ))}
    {"\n"}
  </div>
));
Line.displayName = "Line";
