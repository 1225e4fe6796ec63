// A labelled text input that shows its validation error.

import { useId } from "react";

interface Props {
  readonly label: string;
  readonly placeholder?: string;
  readonly value: string;
  /** Why the value is invalid. */
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
