// A question over the page. The browser holds the focus in it, and Escape leaves it.

import { type ReactNode, useEffect, useRef } from "react";

interface Props {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

export function Modal({ title, onClose, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (dialog.current?.open === false) dialog.current.showModal();
  }, []);
  return (
    <dialog ref={dialog} aria-label={title} className="modal" onClose={onClose}>
      <h2>{title}</h2>
      {children}
    </dialog>
  );
}

interface AnswerProps {
  /** What is done if the answer is yes. */
  readonly yes: string;
  readonly disabled?: boolean;
  readonly onLeave: () => void;
  /** Other answers, between yes and no. */
  readonly children?: ReactNode;
}

/** How a question is answered. */
export function Answers({ yes, disabled = false, onLeave, children }: AnswerProps) {
  return (
    <div className="row">
      <button type="submit" className="primary" disabled={disabled}>
        {yes}
      </button>
      {children}
      <button type="button" onClick={onLeave}>
        Not now
      </button>
    </div>
  );
}
