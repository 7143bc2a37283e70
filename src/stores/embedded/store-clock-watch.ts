import { existsSync } from 'node:fs';
import { openUnchanged } from '../../doctor/sqlite-schema.js';
import type { Clock } from '../../platform/clock.js';
import { type Finding, milliseconds, verdictOf } from '../../platform/finding.js';
import { readLastCommit } from './last-commit.js';
import type { StoreClock } from './store-clock.js';

/** More than a clock is set back by NTP, and far less than a life of a key. */
const NOTICEABLE_MS = 60_000;
const LOOK_EVERY_MS = 60_000;

/** Tells, once each time that it begins, that the store's clock is ahead: then keys are refused, and times are shown, too early. */
export function watchStoreClock(
  storeClock: StoreClock,
  clock: Clock,
  warn: (sentence: string) => void,
): { stop(): void } {
  let wasAhead = false;
  let cancelNext = () => {};

  function look(): void {
    const aheadMs = storeClock.aheadOfWallClock();
    const isAhead = aheadMs > NOTICEABLE_MS;
    if (isAhead && !wasAhead) {
      warn(
        `The store's clock is ${Math.round(aheadMs / 1_000)} s ahead of this machine's: a clock was wrong before, or was set back now. No key that was refused becomes good again, so the store's clock is never set back; see "Clocks" in docs/deployment.md.`,
      );
    }
    wasAhead = isAhead;
    cancelNext = clock.after(LOOK_EVERY_MS, look);
  }

  look();
  return { stop: () => cancelNext() };
}

/** The same for `idempay doctor`, from the last time that was written; nothing where there is no database, or none of this version. */
export function examineStoreClock(path: string): readonly Finding[] {
  if (!existsSync(path)) return [];
  const database = openUnchanged(path);
  try {
    const aheadMs = readLastCommit(database).clockMs - Date.now();
    return [
      {
        verdict: verdictOf(false, aheadMs > NOTICEABLE_MS),
        what: "the store's clock",
        found: aheadMs > 0 ? `${milliseconds(aheadMs)} ahead` : 'not ahead',
        wanted: 'at most a minute ahead of this machine',
        why: 'it is never set back, so that a key that was refused stays refused',
      },
    ];
  } catch {
    // Other rows say what is wrong with the file.
    return [];
  } finally {
    database.close();
  }
}
