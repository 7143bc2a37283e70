import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { DeliberateField, useDeliberate } from './deliberate.js';
import { Dialog } from './dialog.js';

interface Properties {
  readonly title: string;
  /** The word that must be typed. */
  readonly word: string;
  /** The beginning of the sentence that asks for the word, such as "To close it". */
  readonly purpose: string;
  /** The name of the act on its button, and while it is under way. */
  readonly act: string;
  readonly acting: string;
  /** Resolves to the refusal; undefined if it was done, and this dialog is over. */
  send(): Promise<string | undefined>;
  back(): void;
  readonly children: ComponentChildren;
}

/** Says what will be final, and wants a word typed. A refusal is shown here, because it says what to do instead. */
export function DeliberateDialog({ title, word, purpose, act, acting, send, back, children }: Properties) {
  const deliberate = useDeliberate(word);
  const [refusal, setRefusal] = useState<string>();
  const [isSending, setSending] = useState(false);

  async function submit(event: SubmitEvent) {
    event.preventDefault();
    if (!deliberate.isTyped || isSending) return;
    setSending(true);
    setRefusal(undefined);
    const told = await send();
    setSending(false);
    setRefusal(told);
  }

  return (
    <Dialog title={title} isHeld={isSending} close={back}>
      <form onSubmit={submit} class="confirmation">
        {children}
        <DeliberateField purpose={purpose} deliberate={deliberate} />
        <p class="problem" role="alert">
          {refusal !== undefined && <bdi>{refusal}</bdi>}
        </p>
        <div class="actions">
          <button type="button" disabled={isSending} onClick={back}>
            Back
          </button>
          <button type="submit" class="danger" disabled={!deliberate.isTyped || isSending}>
            {isSending ? acting : act}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
