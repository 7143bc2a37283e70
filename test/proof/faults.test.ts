import { describe, expect, test } from 'vitest';
import { DEPLOYMENTS, runFaults } from '../../proof/faults/run.js';
import { tableOf } from '../../proof/faults/table.js';
import { blowsOn, sigkillsOf, type Tally } from '../../proof/faults/tally.js';
import { seedFrom } from '../../testkit/random.js';

/** A run ends by what it has shown, not by time: a slow machine only takes longer. */
const FAULTS = Number(process.env.FAULTS_COUNT || 10);
const LIMIT_MS = FAULTS * 24_000;
/** Starting, healing and judging on a busy machine. */
const SLACK_MS = 180_000;

describe('a short run of the fault suite', () => {
  test.each(DEPLOYMENTS)(
    'finds no broken promise on the %s deployment',
    async (deployment) => {
      const seed = seedFrom('FAULTS_SEED');
      const isEnough = (tally: Tally) =>
        countOf(tally) >= FAULTS &&
        Object.keys(tally.blows).length >= 2 &&
        sigkillsOf(tally) > 0 &&
        (deployment === 'embedded' || storeFaultsOf(tally) > 0);
      const stop = new AbortController();
      const { tally, violations } = await runFaults({
        deployment,
        totalMs: LIMIT_MS,
        seed,
        stop: stop.signal,
        isEnough,
      });
      console.log(`${deployment}, FAULTS_SEED=${seed}\n${tableOf(tally)}`);

      expect(violations.slice(0, 5), `${violations.length} violations, the first of them`).toEqual([]);
      // Else nothing was shown.
      expect(
        isEnough(tally),
        `${FAULTS} faults of two kinds, with a kill and, where there are stores, one of theirs`,
      ).toBe(true);
      // After each fault a payment that was sent after it must succeed.
      for (const what of ['requests', 'keys', 'charges'] as const) {
        expect(tally[what], what).toBeGreaterThanOrEqual(tally.rounds);
      }
      expect(tally.reads, 'reads of transactions').toBeGreaterThan(0);
      expect(tally.writes, 'writes of transactions').toBeGreaterThan(0);
    },
    LIMIT_MS + SLACK_MS,
  );
});

function countOf({ blows }: Tally): number {
  return Object.values(blows).reduce((sum, { count }) => sum + count, 0);
}

function storeFaultsOf(tally: Tally): number {
  return blowsOn(tally, 'redis') + blowsOn(tally, 'postgres');
}
