// A text area for SQL that completes the names of columns, tables and words of the language.

import { type KeyboardEvent, useId, useLayoutEffect, useRef, useState } from "react";
import {
  acceptMatch,
  type Completion,
  completeSql,
  type SqlMatch,
  type SqlNames,
} from "../../document/forms/sqlCompletion";
import { useDraftInput } from "../ui/useDraftInput";
import type { ControlProps } from "./ValueControl";

interface Props extends ControlProps {
  readonly names: SqlNames;
}

export function SqlField({ id, value, set, names }: Props) {
  const list = useId();
  const area = useRef<HTMLTextAreaElement>(null);
  const [completion, setCompletion] = useState<Completion>();
  const [chosen, setChosen] = useState<number>();
  const [caret, setCaret] = useState<number>();
  const draft = useDraftInput(typeof value === "string" ? value : "", (typed) => {
    set(typed === "" ? undefined : typed);
    return true;
  });
  useLayoutEffect(() => {
    if (caret === undefined) return;
    area.current?.setSelectionRange(caret, caret);
    setCaret(undefined);
  }, [caret]);
  const close = () => {
    setCompletion(undefined);
    setChosen(undefined);
  };
  const accept = (match: SqlMatch) => {
    const end = area.current?.selectionStart ?? draft.value.length;
    if (completion === undefined) return;
    const { text, caret } = acceptMatch(draft.value, end, completion, match);
    draft.onChange({ target: { value: text } });
    setCaret(caret);
    close();
  };
  const matches = completion?.matches ?? [];
  const onKeyDown = (event: KeyboardEvent) => {
    if (matches.length === 0) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const match = matches[chosen ?? (event.key === "Tab" && !event.shiftKey ? 0 : -1)];
    if (step !== undefined) {
      const from = chosen ?? (step > 0 ? -1 : 0);
      setChosen((from + step + matches.length) % matches.length);
    } else if (event.key === "Escape") close();
    else if ((event.key === "Enter" || event.key === "Tab") && match !== undefined) accept(match);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div className="sql">
      <textarea
        ref={area}
        id={id}
        rows={names.isQuery ? 4 : 1}
        spellCheck={false}
        autoCapitalize="off"
        value={draft.value}
        aria-autocomplete="list"
        aria-controls={matches.length > 0 ? list : undefined}
        aria-activedescendant={chosen === undefined ? undefined : `${list}-${chosen}`}
        onChange={(event) => {
          draft.onChange(event);
          setCompletion(completeSql(event.target.value, event.target.selectionStart, names));
          setChosen(undefined);
        }}
        onKeyDown={onKeyDown}
        onBlur={() => {
          draft.onBlur();
          close();
        }}
      />
      {matches.length > 0 && (
        <div className="completions" role="listbox" id={list} aria-label="Completions">
          {matches.map((match, i) => (
            <div
              role="option"
              tabIndex={-1}
              key={match.text}
              id={`${list}-${i}`}
              aria-selected={i === chosen}
              // Before the field loses the focus.
              onMouseDown={(event) => {
                event.preventDefault();
                accept(match);
              }}
            >
              {match.text} <span className="quiet">{match.kind}</span>
            </div>
          ))}
        </div>
      )}
    </div>
  );
}
