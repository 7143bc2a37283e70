import { expect, onTestFinished, test } from 'vitest';
import { ask, sendJson } from '../../testkit/client/http-client.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { runDoctor } from '../../testkit/deployments/doctor.js';
import { serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { changeStored } from '../../testkit/protocol/stored-rows.js';

const MONEY = { amount: '25.00', currency: 'EUR' };
/** The next start finds a database that may lack rows. */
const LOSS = {
  embedded: 'UPDATE deployment SET is_backup = 1',
  distributed: "UPDATE idempay.deployment SET timeline = 'FFFFFFFF'",
};

/**
 * Bug: after a restore, an order that was paid at another processor since the backup was charged at the present one too, and a cancellation
 * said that nothing was charged. Cause: only the present processor was asked, and it had no record. Fix: nothing is sent or closed for a key
 * whose row may be lost, until an operator names the same account, or has compared.
 */
describeDeployments('rows that were lost while another processor was in use', (deployment) => {
  test('hold back what only that processor knows, until an operator says what holds', async () => {
    const [stores, before, present] = await Promise.all([
      deployment.open(),
      serveReferenceProcessor(),
      serveReferenceProcessor(),
    ]);
    onTestFinished(async () => {
      await stores.close();
      await before.close();
      await present.close();
    });
    const payOrder = (url: string, order: string) => sendJson(`${url}/api/payment?reference=${order}`, 'POST', MONEY);
    const closeOrder = (url: string, order: string) =>
      ask(`${url}/api/payment-cancellation?reference=${order}`, { method: 'POST' });
    const formerName = `${before.url}?no-user`;
    const settings = (more: Record<string, string> = {}) => ({ PROCESSOR_URL: present.url, ...more });
    const served = async (more: Record<string, string>, use: (url: string) => Promise<void>) => {
      const service = await stores.serve(settings(more));
      await use(service.url);
      await service.stop();
      return service.logs.map(({ msg }) => msg);
    };
    const expectHeldBack = async (url: string, order: string) => {
      for (const answer of [await payOrder(url, order), await closeOrder(url, order)]) {
        expect(answer.status).toBe(503);
        expect(answer.text).toMatch(/PROCESSOR_FORMER_NAMES or PROCESSOR_LOST_ROWS/);
      }
      const records = await ask(`${url}/api/payments?reference=${order}`);
      expect(records.json()).toEqual([]);
    };
    const warning = expect.stringContaining(`the payments of the day before were made at ${formerName}, not at`);

    const first = await stores.serve({ PROCESSOR_URL: before.url });
    expect((await payOrder(first.url, 'order-1')).status).toBe(200);
    await first.stop();
    await changeStored(stores, LOSS);

    const logs = await served({}, async (url) => {
      await expectHeldBack(url, 'order-2');
      // A row that is there answers by itself.
      expect((await payOrder(url, 'order-1')).status).toBe(200);
    });
    expect(logs).toContainEqual(warning);
    expect((await runDoctor({ ...stores.environment, ...settings() })).wrong).toContainEqual(warning);
    expect(await present.charges()).toEqual([]);

    const moved = { PROCESSOR_FORMER_NAMES: formerName };
    await served(moved, async (url) => {
      expect((await payOrder(url, 'order-2')).status).toBe(200);
    });
    expect((await runDoctor({ ...stores.environment, ...settings(moved) })).wrong).not.toContainEqual(warning);
    expect(await present.charges()).toHaveLength(1);

    // The day before the second loss has payments of both, but what the first one lost is still looked up.
    await changeStored(stores, LOSS);
    await served({}, (url) => expectHeldBack(url, 'order-3'));
    const accepted = await served({ PROCESSOR_LOST_ROWS: 'accept' }, async (url) => {
      expect((await payOrder(url, 'order-3')).status).toBe(200);
    });
    expect(accepted).not.toContainEqual(warning);
    // It was said of the losses before, and needs no setting any more.
    await served({}, async (url) => {
      expect((await payOrder(url, 'order-4')).status).toBe(200);
    });
    expect(await present.charges()).toHaveLength(3);
    expect(await before.charges()).toHaveLength(1);
  });
});
