import type { Clock } from '../../platform/clock.js';

/** A wrong setting fails every payment: often enough to be seen at once, too seldom to bury the rest of the log. */
const ALARM_EVERY_MS = 10_000;

/** Reports the first cause, then at most one per interval; `suppressed`: how many came between and were not reported. */
export function createAlarm(
  report: (cause: string, suppressed: number) => void,
  clock: Clock,
): (cause: string) => void {
  let quietUntil = Number.NEGATIVE_INFINITY;
  let suppressed = 0;
  return (cause) => {
    const now = clock.monotonic();
    if (now < quietUntil) {
      suppressed += 1;
      return;
    }
    report(cause, suppressed);
    quietUntil = now + ALARM_EVERY_MS;
    suppressed = 0;
  };
}
