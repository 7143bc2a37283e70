import { describe, expect, test } from 'vitest';
import type { Hit } from '../../proof/faults/environment.js';
import { type DeploymentName, runFaults } from '../../proof/faults/run.js';
import { faultsOf, sigkillsOf, type Tally, tableOf } from '../../proof/faults/tally.js';
import { expectNoViolations } from '../../testkit/checkers/expect-no-violations.js';
import { seedFrom } from '../../testkit/random.js';

/** A run ends by what it has shown, not by time: a slow machine only takes longer. */
const FAULTS = Number(process.env.FAULTS_COUNT || 10);
const LIMIT_MS = FAULTS * 24_000;
/** Starting, healing and checking on a busy machine. */
const SLACK_MS = 180_000;

interface Kind {
  readonly hits: readonly Hit[];
  readonly names?: RegExp;
  readonly isShown: (tally: Tally) => boolean;
}

const PROCESSES: Kind = {
  hits: ['service', 'processor'],
  isShown: (tally) => sigkillsOf(tally) > 0,
};
const EVERYTHING: Kind = {
  hits: ['service', 'processor', 'redis', 'postgres', 'disk'],
  isShown: (tally) => sigkillsOf(tally) > 0 && Object.keys(tally.faults).length > 1,
};
const WITH_STORES: Kind = {
  ...EVERYTHING,
  isShown: (tally) => EVERYTHING.isShown(tally) && faultsOf(tally, 'redis') + faultsOf(tally, 'postgres') > 0,
};
const FLUSHES: Kind = { hits: ['redis'], names: /flushed/, isShown: () => true };
/** What comes back with all that it had: so no key may be lost. */
const OUTAGES: Kind = {
  hits: ['redis', 'postgres'],
  names: /^(Redis killed, restarted from its file|Redis stopped for a while|PostgreSQL stopped at once)/,
  isShown: (tally) => faultsOf(tally, 'redis') > 0 && faultsOf(tally, 'postgres') > 0,
};

describe('under load, no promise is broken', () => {
  test.each<[string, DeploymentName, Kind]>([
    ['by faults of every kind, embedded', 'embedded', EVERYTHING],
    ['by faults of every kind, distributed', 'distributed', WITH_STORES],
    ['while the service and the processor are killed and stopped, embedded', 'embedded', PROCESSES],
    ['while three services and the processor are killed and stopped', 'distributed', PROCESSES],
    ['while Redis is emptied again and again', 'distributed', FLUSHES],
    ['while Redis and PostgreSQL are taken away and come back', 'distributed', OUTAGES],
  ])(
    '%s',
    async (title, deployment, { hits, names = /./, isShown }) => {
      const { tally, violations } = await runFaults({
        deployment,
        totalMs: LIMIT_MS,
        seed: seedFrom('FAULTS_SEED'),
        stop: new AbortController().signal,
        only: (fault) => hits.includes(fault.hits) && names.test(fault.name),
        isEnough: (sofar) => faultsOf(sofar) >= FAULTS && isShown(sofar),
      });
      console.log(`${title}\n${tableOf(tally)}`);
      expectNoViolations(violations);
      // Else nothing was shown. After each fault a payment that was sent after it must succeed.
      expect(faultsOf(tally)).toBeGreaterThanOrEqual(FAULTS);
      expect(isShown(tally), 'kinds of faults').toBe(true);
      expect(tally.charges).toBeGreaterThanOrEqual(tally.rounds);
      expect(Math.min(tally.reads, tally.writes), 'reads and writes of transactions').toBeGreaterThan(0);
    },
    LIMIT_MS + SLACK_MS,
  );
});
