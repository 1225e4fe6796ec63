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
