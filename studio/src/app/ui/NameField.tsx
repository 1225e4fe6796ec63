// An input for a name that commits on blur or Enter: half a name may be another module's. An
// untouched name stays as it is, even if an input cannot hold it.

import { useRef } from "react";

interface Props {
  readonly id?: string;
  readonly label?: string;
  readonly name: string;
  /** Commits the name; returns false if it was refused. */
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
