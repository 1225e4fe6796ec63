// A text field whose text may be wrong for a while: what is typed stays as it is typed, and the
// flow is changed whenever it makes sense.

import { useLayoutEffect, useRef, useState } from "react";
import { settle } from "./studio";

export interface Draft {
  readonly value: string;
  readonly onChange: (event: { target: { value: string } }) => void;
  readonly onBlur: () => void;
}

/** `commit` gets every text, and says whether it could be used; `text` is what the flow says. */
export function useDraft(text: string, commit: (text: string) => boolean): Draft {
  const [typed, setTyped] = useState(text);
  const isOwn = useRef(false);
  // Before the next key: it must meet what the flow says.
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
