// A field of a question: a text that says beside it what it should be, while it is not.

import { useId } from "react";

interface Props {
  readonly label: string;
  readonly placeholder?: string;
  readonly value: string;
  /** What is wrong with it, if anything is. */
  readonly fault: string | undefined;
  readonly onValue: (value: string) => void;
}

export function Checked({ label, placeholder, value, fault, onValue }: Props) {
  const id = useId();
  const why = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        placeholder={placeholder}
        value={value}
        aria-invalid={fault !== undefined}
        aria-describedby={fault === undefined ? undefined : why}
        onChange={({ target }) => onValue(target.value)}
      />
      {fault !== undefined && (
        <p id={why} className="wrong-text">
          {fault}
        </p>
      )}
    </div>
  );
}
