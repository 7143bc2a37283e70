import type { Clock } from '../platform/clock.js';
import type { KeyStore } from './ports/key-store.js';
import type { FinalOutcome } from './values/payment.js';

/** Ends of locks that are kept at most, a few hundred bytes each. If one is dropped, the next repeat finds the outcome in the row. */
const MAX_KEPT = 10_000;
/** Sent at the same time: few, because a store that came back has to serve begins first. */
const AT_ONCE = 100;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;
/** After this time a repeat is useless: most locks have ended, and outcomes are found in the row. */
const LONGEST_MS = 600_000;

/** The owner of a call that holds no lock. */
export const NO_OWNER = '';

/** How attempts end in the key store. */
export interface LockEnds extends Pick<KeyStore, 'finish' | 'release' | 'forget'> {
  /** At drain: tries once more what failed, and then nothing more. */
  stop(): Promise<void>;
}

/** Ends an attempt that claimed nothing, or was settled by its claim. The row that was found decides what happens to its lock and its record. */
export function yieldTo(
  lockEnds: LockEnds,
  key: string,
  owner: string,
  found: { readonly state: string; readonly final?: FinalOutcome },
): Promise<void> {
  if (found.final) return lockEnds.finish(key, owner, found.final);
  return found.state === 'cancelled' ? lockEnds.forget(key, owner) : lockEnds.release(key, owner);
}

interface LockEnd {
  readonly send: () => Promise<void>;
  readonly until: number;
}

/**
 * `finish`, `release` and `forget`, repeated in the background when they fail. So a store that was down for a moment keeps no lock, and no
 * `KEY GENERATED`, alongside a payment that is final (rule P17). They resolve after the first try, also when it failed, because the answer
 * does not depend on the key store.
 *
 * A repeat may come late: `finish` writes a value that is final, with its absolute expiry, and it and `release`
 * delete only a lock that is still the owner's.
 */
export function createLockEnds(keys: KeyStore, clock: Clock): LockEnds {
  let failed: LockEnd[] = [];
  let pauseMs = FIRST_PAUSE_MS;
  let cancelRound: (() => void) | undefined;
  let round = Promise.resolve();
  let stopped = false;

  async function send(lockEnd: LockEnd): Promise<boolean> {
    return lockEnd.send().then(
      () => true,
      () => {
        if (failed.length < MAX_KEPT && clock.monotonic() < lockEnd.until) failed.push(lockEnd);
        return false;
      },
    );
  }

  async function firstTry(sendIt: () => Promise<void>): Promise<void> {
    await send({ send: sendIt, until: clock.monotonic() + LONGEST_MS });
    schedule();
  }

  function schedule(): void {
    if (failed.length === 0 || cancelRound || stopped) return;
    cancelRound = clock.after(pauseMs, () => {
      round = tryAgain().then(() => {
        cancelRound = undefined;
        schedule();
      });
    });
  }

  /** Tries each once. Stops after a batch in which all failed, because the store is still down. */
  async function tryAgain(): Promise<void> {
    const lockEnds = failed;
    failed = [];
    let isBack = true;
    while (isBack && lockEnds.length > 0) {
      const sent = await Promise.all(lockEnds.splice(0, AT_ONCE).map(send));
      isBack = sent.includes(true);
    }
    failed.push(...lockEnds.slice(0, MAX_KEPT - failed.length));
    pauseMs = isBack ? FIRST_PAUSE_MS : Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
  }

  return {
    finish: (key, owner, final) => firstTry(() => keys.finish(key, owner, final)),
    release: (key, owner) => firstTry(() => keys.release(key, owner)),
    forget: (key, owner) => firstTry(() => keys.forget(key, owner)),
    async stop() {
      stopped = true;
      cancelRound?.();
      await round;
      await tryAgain();
    },
  };
}
