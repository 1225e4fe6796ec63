// State of a text field whose text may be invalid for a while: typed text stays as typed, and the
// flow changes whenever the text is valid.

import { useLayoutEffect, useRef, useState } from "react";
import { settle } from "../state/studioStore";

export interface Draft {
  readonly value: string;
  readonly onChange: (event: { target: { value: string } }) => void;
  readonly onBlur: () => void;
}

/** `commit` gets every typed text and returns whether it was valid; `text` is the flow's value. */
export function useDraft(text: string, commit: (text: string) => boolean): Draft {
  const [typed, setTyped] = useState(text);
  const isOwn = useRef(false);
  // In a layout effect: the next keystroke must edit the flow's current value.
  useLayoutEffect(() => {
    if (!isOwn.current) setTyped(text);
    isOwn.current = false;
  }, [text]);
  return {
    value: typed,
    onChange: ({ target: { value } }) => {
      setTyped(value);
      isOwn.current = commit(value);
    },
    onBlur: () => {
      isOwn.current = false;
      setTyped(text);
      settle();
    },
  };
}
