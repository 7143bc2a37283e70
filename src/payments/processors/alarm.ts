import type { Clock } from '../../clock.js';

/** A wrong setting fails every payment: often enough to be seen at once, too seldom to bury the rest of the log. */
const ALARM_EVERY_MS = 10_000;

/** Reports the first cause, then at most one per interval; `swallowed`: how many came between and were not reported. */
export function createAlarm(report: (cause: string, swallowed: number) => void, clock: Clock): (cause: string) => void {
  let quietUntil = Number.NEGATIVE_INFINITY;
  let swallowed = 0;
  return (cause) => {
    const now = clock.monotonic();
    if (now < quietUntil) {
      swallowed += 1;
      return;
    }
    report(cause, swallowed);
    quietUntil = now + ALARM_EVERY_MS;
    swallowed = 0;
  };
}
