// A name that counts when it is finished, since half of one may be another's. What was not touched
// stays as it is, even if a line of a form cannot hold it.

import { useRef } from "react";

interface Props {
  readonly id?: string;
  readonly label?: string;
  readonly name: string;
  /** Gives the name, and says whether it could be given. */
  readonly onName: (name: string) => boolean;
}

export function NameField({ id, label, name, onName }: Props) {
  const shown = useRef("");
  return (
    <input
      id={id}
      aria-label={label}
      defaultValue={name}
      onFocus={({ currentTarget }) => {
        shown.current = currentTarget.value;
      }}
      onKeyDown={({ key, currentTarget }) => {
        if (key === "Escape") currentTarget.value = shown.current;
        if (key === "Escape" || key === "Enter") currentTarget.blur();
      }}
      onBlur={({ currentTarget }) => {
        const { value } = currentTarget;
        if (value !== shown.current && !onName(value)) currentTarget.value = shown.current;
      }}
    />
  );
}
