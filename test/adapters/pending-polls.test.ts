import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { compose, MONEY } from '../../testkit/protocol/payment-composition.js';
import { openPortsOn } from '../../testkit/protocol/stored-rows.js';
import { runSql } from '../../testkit/servers/postgres.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

const POLLS = 200;
const SECONDS = 3;

/** Changes with every write: the number of the last commit, and the version of the row with what the tables were written. */
async function writesOn({ environment: { DATA_DIR, DATABASE_URL } }: Stores): Promise<unknown> {
  if (DATA_DIR !== undefined) {
    const database = new DatabaseSync(join(DATA_DIR, 'idempay.sqlite'), { readOnly: true });
    const commit = database.prepare('SELECT number FROM last_commit').get();
    database.close();
    return commit;
  }
  return runSql(DATABASE_URL as string, 'SELECT xmin::text, ctid::text, epoch, events FROM idempay.payments');
}

/** A page asks again and again while its payer is at the bank (rule P24). */
describeDeployments('polls of a pending payment', (deployment) => {
  test(`write nothing, ${POLLS} in each of ${SECONDS} seconds`, async () => {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const ports = await openPortsOn(stores);
    const clock = new HandClock(Date.now());
    const { payments, pendingPayment, processor } = compose(ports, { clock });
    const order = await pendingPayment();
    const before = await writesOn(stores);
    for (let second = 0; second < SECONDS; second += 1) {
      clock.advance(1_000);
      const answers = await Promise.all(Array.from({ length: POLLS }, () => payments.pay(order, MONEY)));
      expect(new Set(answers.map(({ state }) => state))).toEqual(new Set(['pending']));
    }
    expect(processor.lookUps).toHaveLength(SECONDS);
    expect(await writesOn(stores)).toEqual(before);
    await ports.close();
  });
});
