// State of a text field whose text may be invalid for a while: typed text stays as typed, and the
// flow changes whenever the text is valid.

import { useLayoutEffect, useRef, useState } from "react";
import { endStep } from "../state/studioStore";

export interface DraftInput {
  readonly value: string;
  readonly onChange: (event: { target: { value: string } }) => void;
  readonly onBlur: () => void;
}

/** `commit` gets every typed text and returns whether it was valid; `text` is the flow's value. */
export function useDraftInput(text: string, commit: (text: string) => boolean): DraftInput {
  const [typed, setTyped] = useState(text);
  const wasCommitted = useRef(false);
  // In a layout effect: the next keystroke must edit the flow's current value.
  useLayoutEffect(() => {
    if (!wasCommitted.current) setTyped(text);
    wasCommitted.current = false;
  }, [text]);
  return {
    value: typed,
    onChange: ({ target: { value } }) => {
      setTyped(value);
      wasCommitted.current = commit(value);
    },
    onBlur: () => {
      wasCommitted.current = false;
      setTyped(text);
      endStep();
    },
  };
}
