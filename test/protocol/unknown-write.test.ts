import { describe, expect, test } from 'vitest';
import type { NewTransaction } from '#idempay/transactions/transaction.js';
import { createTransactions } from '#idempay/transactions/transactions.js';
import { failingPort } from '../../testkit/protocol/failing-ports.js';
import { LOST } from '../../testkit/protocol/payment-composition.js';
import { openDistributedPorts, openEmbeddedPorts, sharePorts } from '../../testkit/protocol/ports.js';

const NEW: NewTransaction = { fromAccount: 'A', toAccount: 'B', amount: '100.5', status: 'PENDING' };

/** The client of such a write must ask again. What it reads then must not be hidden by what others read before. */
describe.each([
  ['embedded', openEmbeddedPorts],
  ['distributed', openDistributedPorts],
])('a write that commits after its answer was given up (%s)', (_name, open) => {
  const ports = sharePorts(open);

  test.each([
    ['a status change', 'changeStatus', 'FLAGGED'],
    ['a removal', 'remove', undefined],
  ] as const)('%s is seen by every read after its commit', async (_title, operation, expected) => {
    const store = failingPort(ports.transactions);
    const transactions = createTransactions(store.port, ports.transactionCache);
    const { id } = await ports.transactions.create(NEW);
    let commit: () => Promise<unknown> = async () => {};
    store.interruptNext(operation, async (proceed) => {
      commit = proceed;
      throw LOST;
    });
    const asked = operation === 'remove' ? transactions.remove(id) : transactions.changeStatus(id, 'FLAGGED');
    await expect(asked).rejects.toBe(LOST);
    expect((await transactions.get(id)).transaction?.status).toBe('PENDING');
    await commit();
    expect((await transactions.get(id)).transaction?.status).toBe(expected);
  });
});
