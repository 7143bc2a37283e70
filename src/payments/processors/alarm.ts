import type { Clock } from '../../clock.js';

/** A wrong setting fails every payment: often enough to be seen at once, too seldom to bury the rest of the log. */
const ALARM_EVERY_MS = 10_000;

/** Sounds at the first cause, then at most once per interval; `swallowed`: how many came between and were not told. */
export function createAlarm(sound: (cause: string, swallowed: number) => void, clock: Clock): (cause: string) => void {
  let quietUntil = Number.NEGATIVE_INFINITY;
  let swallowed = 0;
  return (cause) => {
    const now = clock.monotonic();
    if (now < quietUntil) {
      swallowed += 1;
      return;
    }
    sound(cause, swallowed);
    quietUntil = now + ALARM_EVERY_MS;
    swallowed = 0;
  };
}
