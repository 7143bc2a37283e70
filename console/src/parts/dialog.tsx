import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import './parts.css';

interface Properties {
  readonly title: string;
  /** A request is under way, whose result is shown here: it cannot be closed. */
  readonly isHeld?: boolean;
  close(): void;
  readonly children: ComponentChildren;
}

/** Open as long as it is rendered. The browser keeps the focus inside, and gives it back afterwards. */
export function Dialog({ title, isHeld = false, close, children }: Properties) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onCancel={(event) => {
        // Escape: the component that rendered the dialog removes it.
        event.preventDefault();
        if (!isHeld) close();
      }}
      // A browser closes it all the same after a second Escape.
      onClose={() => {
        if (isHeld) dialog.current?.showModal();
        else if (dialog.current) close();
      }}
    >
      <header class="dialog-head">
        <h2 id={id}>{title}</h2>
        <button type="button" class="quiet" aria-label="Close" disabled={isHeld} onClick={close}>
          ✕
        </button>
      </header>
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}
