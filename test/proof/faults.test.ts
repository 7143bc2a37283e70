import { describe, expect, test } from 'vitest';
import { DEPLOYMENTS, runFaults } from '../../proof/faults/run.js';
import { tableOf } from '../../proof/faults/table.js';
import { blowsOn, sigkillsOf } from '../../proof/faults/tally.js';
import { seedFrom } from '../../testkit/random.js';

/** Of each deployment, with starting, healing and judging; longer when asked for. */
const SECONDS = Number(process.env.FAULTS_SECONDS || 30);
/** Waits inside have their own limits; on a busy machine servers take their time to start and to end. */
const SLACK_MS = 180_000;

describe('a short run of the fault suite', () => {
  test.each(DEPLOYMENTS)(
    'finds no broken promise on the %s deployment',
    async (deployment) => {
      const seed = seedFrom('FAULTS_SEED');
      const stop = new AbortController();
      const { tally, violations } = await runFaults({ deployment, totalMs: SECONDS * 1_000, seed, stop: stop.signal });
      console.log(`${deployment}, FAULTS_SEED=${seed}\n${tableOf(tally)}`);

      expect(violations.slice(0, 5), `${violations.length} violations, the first of them`).toEqual([]);
      // Else nothing was shown.
      expect(sigkillsOf(tally), 'processes killed').toBeGreaterThan(0);
      expect(Object.keys(tally.blows).length, 'kinds of blows').toBeGreaterThan(1);
      if (deployment === 'distributed') {
        expect(blowsOn(tally, 'redis') + blowsOn(tally, 'postgres'), 'faults of the stores').toBeGreaterThan(0);
      }
      for (const [what, least] of Object.entries({ requests: 1_000, keys: 50, charges: 50, reads: 200, writes: 50 })) {
        expect(tally[what as 'requests'], what).toBeGreaterThan(least);
      }
    },
    SECONDS * 1_000 + SLACK_MS,
  );
});
