// A modal dialog and its buttons. The browser traps the focus, and Escape closes it; the focus
// returns to where it was, however the dialog is closed.

import { type ReactNode, useEffect, useRef } from "react";

interface Props {
  readonly title: string;
  readonly onClose: () => void;
  /** For tables: as wide as the page allows. */
  readonly isWide?: boolean;
  readonly children: ReactNode;
}

export function Modal({ title, onClose, isWide = false, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const opener = document.activeElement;
    if (dialog.current?.open === false) dialog.current.showModal();
    return () => {
      if (opener instanceof HTMLElement) opener.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-label={title}
      className={isWide ? "modal wide" : "modal"}
      onClose={onClose}
    >
      <h2>{title}</h2>
      {children}
    </dialog>
  );
}

interface DialogButtonsProps {
  /** The label of the submit button. */
  readonly submitLabel: string;
  readonly disabled?: boolean;
  readonly onCancel: () => void;
  /** More buttons, between submit and cancel. */
  readonly children?: ReactNode;
}

/** The row of buttons at a dialog's end. */
export function DialogButtons({
  submitLabel,
  disabled = false,
  onCancel,
  children,
}: DialogButtonsProps) {
  return (
    <div className="row">
      <button type="submit" className="primary" disabled={disabled}>
        {submitLabel}
      </button>
      {children}
      <button type="button" onClick={onCancel}>
        Cancel
      </button>
    </div>
  );
}
