import { describe, expect, test } from 'vitest';
import type { DeploymentName } from '../../proof/faults/environment.js';
import type { Hit } from '../../proof/faults/fault.js';
import { runFaults } from '../../proof/faults/run.js';
import { faultsOf, sigkillsOf, type Tally, tableOf } from '../../proof/faults/tally.js';
import { expectNoViolations } from '../../testkit/checkers/expect-no-violations.js';
import { seedFrom } from '../../testkit/random.js';
import { WITHOUT_LIMIT } from '../../testkit/time/patience.js';

/** A run ends by what it has shown, not by time: a slow machine only takes longer. */
const FAULTS = Number(process.env.FAULTS_COUNT || 10);
const LIMIT_MS = FAULTS * 60_000;
/** True if only the runs take place that choose from every kind of fault: `FAULTS_KINDS=every`, as in `.ci/run`. */
const EVERY_KIND_ONLY = process.env.FAULTS_KINDS === 'every';

const PROCESSES: readonly Hit[] = ['service', 'processor'];
const STORES: readonly Hit[] = ['redis', 'postgres'];
/** Servers that come back with all that they had: so no key may be lost. */
const OUTAGES = /^(Redis killed, restarted from its file|Redis stopped for a while|PostgreSQL stopped at once)/;

/** `shown`: what must have been hit, one of each list; `names`: the faults that are chosen from. */
type Run = [string, DeploymentName, hits: readonly Hit[], shown: (readonly Hit[])[], names?: RegExp];

describe('under load, no promise is broken', () => {
  const everyKind: Run[] = [
    ['by faults of every kind, embedded', 'embedded', [...PROCESSES, 'disk'], [PROCESSES]],
    ['by faults of every kind, distributed', 'distributed', [...PROCESSES, ...STORES], [PROCESSES, STORES]],
  ];
  const someKinds: Run[] = [
    ['while the service and the processor are killed and stopped, embedded', 'embedded', PROCESSES, [PROCESSES]],
    ['while three services and the processor are killed and stopped', 'distributed', PROCESSES, [PROCESSES]],
    ['while Redis is emptied again and again', 'distributed', ['redis'], [['redis']], /flushed/],
    ['while Redis and PostgreSQL go down and come back', 'distributed', STORES, [['redis'], ['postgres']], OUTAGES],
  ];

  test.each(EVERY_KIND_ONLY ? everyKind : [...everyKind, ...someKinds])(
    '%s',
    WITHOUT_LIMIT,
    async (title, deployment, hits, shown, names = /./) => {
      const isShown = (tally: Tally) =>
        faultsOf(tally) >= FAULTS &&
        shown.every((some) => some.some((hit) => faultsOf(tally, hit) > 0)) &&
        (sigkillsOf(tally) > 0 || !hits.includes('service'));
      const { tally, violations } = await runFaults({
        deployment,
        totalMs: LIMIT_MS,
        // Odd: the processor does not deduplicate at first, so a charge that is sent twice through a kill is seen.
        seed: seedFrom('FAULTS_SEED') | Number(hits === PROCESSES),
        only: (fault) => hits.includes(fault.hits) && names.test(fault.name),
        isEnough: isShown,
      });
      console.log(`${title}\n${tableOf(tally)}`);
      expectNoViolations(violations);
      // Else nothing was shown. After each fault a payment that was sent after it must succeed.
      expect(isShown(tally), 'enough faults of each kind').toBe(true);
      expect(tally.charges).toBeGreaterThanOrEqual(tally.rounds);
      expect(Math.min(tally.reads, tally.writes), 'reads and writes of transactions').toBeGreaterThan(0);
      expect(tally.scrapes).toBeGreaterThan(0);
    },
  );
});
