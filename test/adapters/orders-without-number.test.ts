import { expect, test } from 'vitest';
import { payOrder } from '../../testkit/client/orders.js';
import { listPayments } from '../../testkit/client/payment-records.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { findingsOfFolder, findingsOfPostgres, rowOf } from '../../testkit/deployments/doctor.js';
import { changeStored } from '../../testkit/protocol/stored-rows.js';

const findings = ({ environment: { DATA_DIR, DATABASE_URL } }: Stores) =>
  DATA_DIR !== undefined ? findingsOfFolder(DATA_DIR) : findingsOfPostgres(`${DATABASE_URL}`);
const lostNumbers = async (stores: Stores) => rowOf(await findings(stores), 'orders without a number');

describeDeployments('payments of a reference that is refused by now (rule P18)', (deployment) => {
  test('can be listed, and the doctor counts them', async () => {
    const stores = await deployment.open();
    try {
      const before = await stores.serve();
      for (const reference of ['order-1', 'order-2', 'order-3', 'V1StGXR8_Z5jdHi6B-']) {
        expect((await payOrder(before.url, { reference, amount: '7.00', currency: 'EUR' })).status).toBe(200);
      }
      await before.stop();
      expect(await lostNumbers(stores)).toMatchObject({ verdict: 'ok', found: 'none' });
      const rename = (table: string, from: string, to: string) =>
        `UPDATE ${table} SET reference = '${to}' WHERE reference = '${from}';`;
      const renamed = (table: string) => rename(table, 'order-1', 'order-') + rename(table, 'order-2', 'INV-2026-');
      await changeStored(stores, { embedded: renamed('payments'), distributed: renamed('idempay.payments') });
      expect(await lostNumbers(stores)).toMatchObject({
        verdict: 'warning',
        found: expect.stringMatching(/^2, for example (order-|INV-2026-)$/),
      });
      const { url } = await stores.serve();
      const { payments } = await listPayments(url, '?reference=order-');
      expect(payments).toMatchObject([{ reference: 'order-', state: 'COMPLETED' }]);
      expect((await payOrder(url, { reference: 'order-', amount: '7.00', currency: 'EUR' })).status).toBe(400);
    } finally {
      await stores.close();
    }
  });
});
