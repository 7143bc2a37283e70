import { useEffect, useState } from 'preact/hooks';
import './parts.css';

const SAID_FOR_MS = 1_500;

/** `what` names it for a screen reader: `Copy the key`. */
export function CopyButton({ text, what }: { text: string; what: string }) {
  const [result, setResult] = useState<'copied' | 'not copied'>();
  useEffect(() => {
    if (!result) return;
    const timer = setTimeout(() => setResult(undefined), SAID_FOR_MS);
    return () => clearTimeout(timer);
  }, [result]);
  return (
    <button
      type="button"
      class="quiet"
      aria-label={`Copy ${what}`}
      onClick={async () => {
        // There is no clipboard without TLS on other hosts than this machine.
        const done = await navigator.clipboard?.writeText(text).then(
          () => true,
          () => false,
        );
        setResult(done ? 'copied' : 'not copied');
      }}
    >
      <span aria-live="polite">{result ?? 'copy'}</span>
    </button>
  );
}

/** A key, an id or a command, with its button. */
export function Copyable({ text, what }: { text: string; what: string }) {
  return (
    <span class="copy">
      <code>
        <bdi>{text}</bdi>
      </code>
      <CopyButton text={text} what={what} />
    </span>
  );
}
