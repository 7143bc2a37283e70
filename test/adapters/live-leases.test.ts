import { expect, onTestFinished, test } from 'vitest';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { givenClaim, LONG_MS, newOwner } from '../../testkit/protocol/payment-attempts.js';
import { changeStored, openPortsOn } from '../../testkit/protocol/stored-rows.js';

/**
 * Each write of a lease makes its payment due at the end of the lease, so only a row that was changed by hand shows that the lease decides.
 */
describeDeployments('recovery', (deployment) => {
  test('leaves a payment under a live lease alone, also if it is due', async () => {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const { ledger, close } = await openPortsOn(stores);
    const { key } = await givenClaim(ledger);
    await changeStored(stores, {
      embedded: 'UPDATE payments SET recover_at = 0',
      distributed: 'UPDATE idempay.payments SET recover_at = to_timestamp(0)',
    });
    const due = { leaseMs: LONG_MS, processor: 'test', first: 'latest due', limit: 10 } as const;
    expect(await ledger.takeOverDue({ ...due, owner: newOwner() })).toEqual([]);
    expect(await ledger.find(key)).toMatchObject({ state: 'under way' });
    await close();
  });
});
