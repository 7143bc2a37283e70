import { describe, expect, test, vi } from 'vitest';
import { represent, transactionTag } from '#idempay/transactions/representation.js';
import type { Transaction } from '#idempay/transactions/transaction.js';

const TRANSACTION: Transaction = {
  id: 100_000_000_000_001,
  fromAccount: 'A',
  toAccount: 'B',
  amount: '100.5',
  status: 'PENDING',
  version: 1,
  createdAt: 1_700_000_000_000,
};

/**
 * Bug: a major garbage collection stopped the process for half a second with a full cache. Cause: what was made of each cached
 * transaction lay in a weak map, which the collector goes through entry by entry. Fix: it lies in the transaction.
 */
describe('what a client sees of a transaction', () => {
  test('is made once and remembered without a weak map', () => {
    const weakly = vi.spyOn(WeakMap.prototype, 'set');
    try {
      const transaction = { ...TRANSACTION };
      const representation = represent(transaction);
      expect(represent(transaction)).toBe(representation);
      // Others use weak maps: the platform does, for a digest.
      expect(weakly.mock.calls.map(([key]) => key)).not.toContain(transaction);
      expect(representation.tag).toBe(transactionTag(transaction, 'PENDING'));
    } finally {
      weakly.mockRestore();
    }
  });

  test('is not taken along by a copy of the transaction with another status', () => {
    const transaction = { ...TRANSACTION };
    const before = represent(transaction);
    const after = represent({ ...transaction, status: 'FLAGGED' });
    expect(after.json).toContain('"status":"FLAGGED"');
    expect(after.tag).not.toBe(before.tag);
  });

  test('leaves no trace in what is stored or compared', () => {
    const transaction = { ...TRANSACTION };
    represent(transaction);
    expect(JSON.stringify(transaction)).toBe(JSON.stringify(TRANSACTION));
    expect(transaction).toEqual(TRANSACTION);
    expect(Object.keys(transaction)).toEqual(Object.keys(TRANSACTION));
  });
});
