import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Dialog } from './dialog.js';

interface Properties {
  readonly title: string;
  /** The name of the next step, on its button. */
  readonly next: string;
  /** Says in a sentence what is missing or wrong; undefined if the form can be used. */
  problemOf(): string | undefined;
  confirm(): void;
  back(): void;
  readonly children: ComponentChildren;
}

/** Asks for the parts of an act, which a dialog that wants a word typed then confirms. */
export function FormDialog({ title, next, problemOf, confirm, back, children }: Properties) {
  const [problem, setProblem] = useState<string>();

  function submit(event: SubmitEvent) {
    event.preventDefault();
    const found = problemOf();
    setProblem(found);
    if (found === undefined) confirm();
  }

  return (
    <Dialog title={title} close={back}>
      <form onSubmit={submit} class="confirmation" noValidate>
        {children}
        <p class="problem" role="alert">
          {problem}
        </p>
        <div class="actions">
          <button type="button" onClick={back}>
            Back
          </button>
          <button type="submit" class="primary">
            {next}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
