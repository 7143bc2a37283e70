import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { StoreUnavailable } from '#idempay/faults.js';
import type { NewTransaction } from '#idempay/transactions/transaction.js';
import { createTransactions } from '#idempay/transactions/transactions.js';
import { failingPort } from '../../testkit/protocol/failing-ports.js';
import { openDistributedPorts, openEmbeddedPorts, type Ports } from '../../testkit/protocol/ports.js';

const NEW: NewTransaction = { fromAccount: 'A', toAccount: 'B', amount: '100.5', status: 'PENDING' };
const LOST = new StoreUnavailable('unknown', 'the answer was lost');

/** The client of such a write is told to ask again. What it reads then must not be hidden by what others read before. */
describe.each([
  ['embedded', openEmbeddedPorts],
  ['distributed', openDistributedPorts],
] as const)('a write that commits after its answer was given up (%s)', (_name, open) => {
  let ports: Ports;

  beforeAll(async () => {
    ports = await open();
  });
  afterAll(() => ports.close());

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
