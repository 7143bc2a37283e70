import { expect, onTestFinished, test } from 'vitest';
import { DEPLOYMENT_NAMES, openEnvironment } from '../../proof/faults/environment.js';
import { CrashPoints } from '../../proof/faults/fault-order.js';
import { restoreUnderLoad } from '../../proof/faults/restores.js';
import { expectNoViolations } from '../../testkit/checkers/expect-no-violations.js';
import { History } from '../../testkit/history/history.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { WITHOUT_LIMIT } from '../../testkit/time/patience.js';

/** The processor does not deduplicate, and the service knows: what is sent twice is charged twice. */
test.each(DEPLOYMENT_NAMES)(
  'under load a restore charges nothing twice, gives no id twice and shows nothing that was lost: %s',
  WITHOUT_LIMIT,
  async (deployment) => {
    const history = new History();
    const failures: string[] = [];
    const environment = await openEnvironment(deployment, {
      ...{ deduplicates: false, onSmallDisk: false, history, crashPoints: new CrashPoints({}) },
      onKilled() {},
      onOwnEnd: (sentence) => failures.push(sentence),
    });
    onTestFinished(async () => {
      await environment.close();
      history.close();
    });
    await Promise.all(environment.services.map((service) => service.up()));
    const random = seededRandom(seedFrom('RESTORE_SEED'));
    let laterAttempts = 0;
    for (const [way, backUp] of Object.entries(environment.record.backups)) {
      for (const isRenamed of [false, true]) {
        const lost = { transactions: 0, payments: 0, laterAttempts: 0 };
        expectNoViolations(await restoreUnderLoad({ backUp, isRenamed }, { ...environment, random }, lost));
        console.log(way, { isRenamed }, lost);
        // Else the backup lacked nothing, and nothing was shown.
        expect(Math.min(lost.transactions, lost.payments)).toBeGreaterThan(0);
        laterAttempts += lost.laterAttempts;
      }
    }
    expect(laterAttempts).toBeGreaterThan(0);
    expect(failures).toEqual([]);
  },
);
