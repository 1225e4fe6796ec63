// A labelled text input that shows its validation error.

import { useId } from "react";

interface Props {
  readonly label: string;
  readonly placeholder?: string;
  readonly value: string;
  /** Why the value is invalid. */
  readonly error: string | undefined;
  readonly onValue: (value: string) => void;
}

export function ValidatedInput({ label, placeholder, value, error, onValue }: Props) {
  const id = useId();
  const why = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        placeholder={placeholder}
        value={value}
        aria-invalid={error !== undefined}
        aria-describedby={error === undefined ? undefined : why}
        onChange={({ target }) => onValue(target.value)}
      />
      {error !== undefined && (
        <p id={why} className="wrong-text">
          {error}
        </p>
      )}
    </div>
  );
}
