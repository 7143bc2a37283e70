import type { ComponentChildren } from 'preact';
import './parts.css';

/** Nothing is there, and what to do about it. */
export function EmptyState({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <section class="state">
      <h2>
        <bdi>{title}</bdi>
      </h2>
      {children !== undefined && <p class="muted">{children}</p>}
    </section>
  );
}

/** `sentence`: what happened, and what to do. */
export function ErrorState({
  sentence,
  action,
}: {
  sentence: string;
  action?: { readonly label: string; run(): void } | undefined;
}) {
  return (
    <section class="state error" role="alert">
      <p>
        <bdi>{sentence}</bdi>
      </p>
      {action && (
        <button type="button" onClick={action.run}>
          {action.label}
        </button>
      )}
    </section>
  );
}

/** The result of an action, above the state that it led to, until a person has read it. */
export function Note({ isDone, dismiss, children }: { isDone: boolean; dismiss(): void; children: ComponentChildren }) {
  return (
    <section class={isDone ? 'state done' : 'state error'} role="alert">
      {children}
      <button type="button" onClick={dismiss}>
        Dismiss
      </button>
    </section>
  );
}

export function LoadingState({ what }: { what: string }) {
  return (
    <div class="state loading" role="status">
      Loading {what}…
    </div>
  );
}
