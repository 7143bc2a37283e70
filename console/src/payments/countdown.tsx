import { useEffect, useState } from 'preact/hooks';
import { durationText } from '../parts/duration.js';
import { Time } from '../parts/time.js';

const SECOND_MS = 1_000;

/** A moment, and how far it is from now, which goes on by itself. No screen reader announces each second, not even in a live region. */
export function Countdown({ to }: { to: string | number }) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), SECOND_MS);
    return () => clearInterval(timer);
  }, []);
  const leftMs = new Date(to).getTime() - now;
  return (
    <span class="countdown">
      <Time at={to} />{' '}
      <span class="muted" aria-live="off">
        (
        {leftMs >= SECOND_MS
          ? `in ${durationText(leftMs)}`
          : leftMs > -SECOND_MS
            ? 'now'
            : `${durationText(-leftMs)} ago`}
        )
      </span>
    </span>
  );
}
