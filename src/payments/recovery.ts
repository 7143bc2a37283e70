import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../clock.js';
import type { CarryOut } from './attempt.js';
import type { Ledger } from './ledger.js';
import type { Processor } from './processor.js';

/** How often abandoned payments are looked for: a key is stuck at most its lease plus this long. */
const RECOVERY_INTERVAL_MS = 3_000;
/** Taken over and worked on at a time: bounded, so that recovery after an outage cannot crowd out live payments. */
const RECOVERY_CONCURRENCY = 64;

export interface Recovery {
  /**
   * Begins: one round at once, then one every few seconds until `stop`. Resolves when the first round has ended or
   * `waitMs` have passed; a slow processor then goes on being asked behind the open port.
   */
  start(waitMs: number): Promise<void>;
  /** Finishes abandoned payments until none is left. Resolves to how many were finished. */
  runOnce(): Promise<number>;
  /** Begins nothing more; resolves when the round under way has ended. */
  stop(): Promise<void>;
}

/** Takes over what a dead owner left PROCESSING, and finishes it with the row's own values (protocol, step 6). */
export function createRecovery(collaborators: {
  ledger: Ledger;
  processor: Processor;
  carryOut: CarryOut;
  leaseMs: number;
  clock: Clock;
  newOwner: () => string;
  onFault: (fault: unknown) => void;
}): Recovery {
  const { ledger, processor, carryOut, leaseMs, clock, newOwner, onFault } = collaborators;
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  let round: Promise<unknown> = Promise.resolve();

  async function runOnce(): Promise<number> {
    let finished = 0;
    while (!stopped) {
      const batch = await finishBatch();
      finished += batch.finished;
      // A payment that stayed unknown is abandoned again at once: the next round, not this one, asks again.
      if (batch.taken < RECOVERY_CONCURRENCY || batch.finished === 0) break;
    }
    return finished;
  }

  async function finishBatch(): Promise<{ taken: number; finished: number }> {
    const askedAt = clock.monotonic();
    const claims = await ledger.takeOverAbandoned({
      owner: newOwner(),
      leaseMs,
      processor: processor.name,
      limit: RECOVERY_CONCURRENCY,
    });
    const results = await Promise.all(
      claims.map((claim) =>
        carryOut(claim, askedAt, 'takeover').catch((fault: unknown) => {
          onFault(fault);
          return { state: 'unknown' } as const;
        }),
      ),
    );
    return { taken: claims.length, finished: results.filter((result) => result.state !== 'unknown').length };
  }

  function runRound(): void {
    round = runOnce()
      .catch(onFault)
      .finally(() => {
        if (!stopped) timer = setTimeout(runRound, RECOVERY_INTERVAL_MS).unref();
      });
  }

  return {
    runOnce,
    async start(waitMs) {
      runRound();
      await Promise.race([round, delay(waitMs)]);
    },
    async stop() {
      stopped = true;
      clearTimeout(timer);
      await round;
    },
  };
}
