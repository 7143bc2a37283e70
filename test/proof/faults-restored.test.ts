import { expect, test } from 'vitest';
import { openEnvironment } from '../../proof/faults/environment.js';
import { CrashPoints } from '../../proof/faults/fault-order.js';
import { restoreUnderLoad } from '../../proof/faults/restores.js';
import { RESTORES } from '../../proof/faults/run.js';
import { expectNoViolations } from '../../testkit/checkers/expect-no-violations.js';
import { History } from '../../testkit/history/history.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';

/** The processor does not deduplicate, and the service knows: what is sent twice is charged twice. */
test.each(Object.entries(RESTORES))(
  'under load a restore charges nothing twice, gives no id twice and shows nothing that was lost: %s',
  async (_way, backUp) => {
    const history = new History();
    const failures: string[] = [];
    const environment = await openEnvironment('distributed', {
      ...{ deduplicates: false, onSmallDisk: false, history, crashPoints: new CrashPoints({}) },
      onKilled() {},
      onOwnEnd: (sentence) => failures.push(sentence),
    });
    const { services, processor, postgres } = environment;
    try {
      await Promise.all(services.map((service) => service.up()));
      if (!postgres) throw new Error('no PostgreSQL');
      const lost = { transactions: 0, payments: 0 };
      const random = seededRandom(seedFrom('RESTORE_SEED'));
      expectNoViolations(await restoreUnderLoad(backUp, { services, processor, postgres, random }, lost));
      console.log(lost);
      // Else the backup lacked nothing, and nothing was shown.
      expect(Math.min(lost.transactions, lost.payments)).toBeGreaterThan(0);
      expect(failures).toEqual([]);
    } finally {
      await environment.close();
      history.close();
    }
  },
  180_000,
);
