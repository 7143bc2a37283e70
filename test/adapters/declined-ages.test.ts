import { expect, onTestFinished, test } from 'vitest';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import {
  claimAttempt,
  DECLINED,
  givenClaim,
  givenSettled,
  inState,
  newReference,
  turnsOf,
} from '../../testkit/protocol/payment-attempts.js';
import { changeStored, openPortsOn, type StoredChange } from '../../testkit/protocol/stored-rows.js';
import { HOUR_MS, passHours } from '../../testkit/time/retention-time.js';

const DAYS_UNSEEN_MS = 48 * HOUR_MS;
const LATE_MS = 24 * HOUR_MS;

/** The newest hour's record of time in which no process ran. */
const unseen = (isConfirmed: boolean): StoredChange => ({
  embedded: `UPDATE retention_hours SET unseen_ms = ${DAYS_UNSEEN_MS}, confirmed = ${isConfirmed ? 1 : 0}
    WHERE hour = (SELECT max(hour) FROM retention_hours)`,
  distributed: `UPDATE idempay.retention_hours SET unseen_ms = ${DAYS_UNSEEN_MS}, confirmed = ${isConfirmed}
    WHERE hour = (SELECT max(hour) FROM idempay.retention_hours)`,
});

/** The age of a decline decides whether another attempt may follow it (rule P18), by the time that retention counts. */
describeDeployments('a decline', (deployment) => {
  test('is older by hours that no process saw only after an operator has confirmed them', async () => {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const references = [newReference(), newReference()];
    const before = await openPortsOn(stores);
    const turn = turnsOf(before.id);
    for (const reference of references)
      await givenSettled(before.ledger, await givenClaim(before.ledger, turn(reference)), { outcome: DECLINED });
    await passHours(before.ledger, 2);
    await before.close();

    for (const [index, isConfirmed] of [false, true].entries()) {
      await changeStored(stores, unseen(isConfirmed));
      const { ledger, close } = await openPortsOn(stores);
      const second = turn(references[index] as string, 2, { lateMs: LATE_MS });
      const claimed = await ledger.claim(claimAttempt(second));
      if (isConfirmed) expect(inState(claimed, 'not its turn').previous).toBe('declined too long ago');
      else expect(claimed.state).toBe('claimed');
      await close();
    }
  });
});
