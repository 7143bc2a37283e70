import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { asCreated, type CreationKey, type CreationResult, fingerprintOf } from '#idempay/transactions/creation.js';
import { type NewTransaction, TRANSACTION_STATUSES } from '#idempay/transactions/transaction.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';

const LONG_MS = 600_000;
const SHORT_MS = 300;
/** How many creates of a kind run at once: more than one statement or commit takes, so some come before and after. */
const AT_ONCE = 20;

/**
 * Guarantees of every TransactionStore on creates beyond their types:
 *  1. The ids of one create follow each other in the order of its rows, and its rows are kept exactly. 2. The list version moves.
 *  3. A key creates once: a create that comes later, or at once, gets the first result and changes nothing. 4. For other rows
 *     it is a mismatch. 5. Clients, endpoints and keys are apart, in every letter. 6. An expired key creates anew.
 *  7. `findCreation` gives the result that a create would get, and creates nothing. 8. The first result is given whatever became of its
 *     rows.
 *  9. Ids rise in commit order, whatever creates.
 */
export function transactionCreationContract({ transactions: store, pass }: ContractPorts): void {
  function rowsOf(count: number, fromAccount: string = randomUUID()): NewTransaction[] {
    return Array.from({ length: count }, (_, index) => {
      return { fromAccount, toAccount: `to ${index}`, amount: `${index + 1}.25`, status: 'PENDING' };
    });
  }

  function keyFor(rows: readonly NewTransaction[], members: Partial<CreationKey> = {}): CreationKey {
    const name = { client: '', endpoint: 'batch', key: randomUUID() } as const;
    return { ...name, fingerprint: fingerprintOf(rows), idempotencyTtlMs: LONG_MS, ...members };
  }

  async function expectStored(rows: readonly NewTransaction[], result: CreationResult): Promise<void> {
    if (result.state === 'mismatch') throw new Error('it is a mismatch');
    const [first] = rows;
    const snapshot = await store.openSnapshot({ from: first?.fromAccount ?? '', to: '' });
    try {
      expect(await snapshot.rows(0, 2_000)).toEqual(asCreated(rows, result));
    } finally {
      snapshot.close();
    }
  }

  test.each([1, 2, 1_000])('1, 2, 3: %d rows are created once, and a repeat gets the first result', async (count) => {
    const rows = rowsOf(count);
    const key = keyFor(rows);
    const before = await store.listVersion();
    const created = await store.createAll(rows, key);
    expect(created).toMatchObject({ state: 'created' });
    await expectStored(rows, created);
    const version = await store.listVersion();
    expect(version).toBeGreaterThan(before);
    expect(await store.createAll(rows, key)).toEqual({ ...created, state: 'replayed' });
    await expectStored(rows, created);
    expect(await store.listVersion()).toBe(version);
  });

  test('1: rows of a batch are kept exactly, whatever their accounts, amounts and statuses', async () => {
    const fromAccount = randomUUID();
    const accounts = [
      `'"\\%_`,
      'e\u0301',
      '\u00e9',
      '\u{1f4b3}'.repeat(64),
      '\u2028',
      ' A ',
      '[1]',
      'null',
      '{"a":1}',
      '007',
    ];
    const amounts = ['0.0001', '99999999999999.9', '99999999999.9999', '1'];
    const rows = accounts.map((toAccount, index) => {
      const status = TRANSACTION_STATUSES[index % TRANSACTION_STATUSES.length] ?? 'PENDING';
      return { fromAccount, toAccount, amount: amounts[index % amounts.length] ?? '1', status };
    });
    await expectStored(rows, await store.createAll(rows));
  });

  test('1, 2: without a key every create makes its rows', async () => {
    const from = randomUUID();
    const [rows, again] = [rowsOf(3, from), rowsOf(3, from)];
    const before = await store.listVersion();
    const first = await store.createAll(rows);
    await expectStored(rows, first);
    expect(await store.listVersion()).toBeGreaterThan(before);
    const second = await store.createAll(again);
    if (first.state !== 'created' || second.state !== 'created') throw new Error('not created');
    expect(second.firstId).toBeGreaterThanOrEqual(first.firstId + 3);
  });

  test.each([1, 40])('3: of many creates of %d rows with one key at once one creates', async (count) => {
    const rows = rowsOf(count);
    const key = keyFor(rows);
    const results = await Promise.all(Array.from({ length: AT_ONCE }, () => store.createAll(rows, key)));
    expect(results.map(({ state }) => state).sort()).toEqual(['created', ...Array(AT_ONCE - 1).fill('replayed')]);
    for (const result of results) expect({ ...result, state: '' }).toEqual({ ...results[0], state: '' });
    await expectStored(rows, results[0] as CreationResult);
  });

  test('3, 5: creates with different keys at once each make their own rows', async () => {
    const creates = Array.from({ length: AT_ONCE }, (_, index) => rowsOf(index % 3 === 0 ? 1 : index));
    const results = await Promise.all(creates.map((rows) => store.createAll(rows, keyFor(rows))));
    for (const [index, rows] of creates.entries()) {
      const result = results[index] as CreationResult;
      expect(result.state).toBe('created');
      await expectStored(rows, result);
    }
  });

  test('3, 5: known and new keys at once: the known ones leave no rows, and the new ones theirs', async () => {
    const known = Array.from({ length: AT_ONCE }, () => rowsOf(1)).map((rows) => ({ rows, key: keyFor(rows) }));
    const first = await Promise.all(known.map(({ rows, key }) => store.createAll(rows, key)));
    const fresh = Array.from({ length: AT_ONCE }, () => rowsOf(1)).map((rows) => ({ rows, key: keyFor(rows) }));
    const mixed = known.flatMap((one, index) => [one, fresh[index] ?? one]);
    const results = await Promise.all(mixed.map(({ rows, key }) => store.createAll(rows, key)));
    for (const [index, { rows }] of mixed.entries()) {
      const isKnown = index % 2 === 0;
      const result = results[index] as CreationResult;
      expect(result).toEqual(isKnown ? { ...first[index / 2], state: 'replayed' } : { ...result, state: 'created' });
      await expectStored(rows, result);
    }
  });

  test('4: a key is a mismatch for other rows, also in another order, and stays what it was', async () => {
    const rows = rowsOf(2);
    const key = keyFor(rows);
    const created = await store.createAll(rows, key);
    const version = await store.listVersion();
    for (const others of [rowsOf(2), rows.slice(0, 1), [...rows].reverse()]) {
      const mismatching = { ...key, fingerprint: fingerprintOf(others) };
      expect(await store.createAll(others, mismatching)).toEqual({ state: 'mismatch' });
      expect(await store.findCreation(mismatching)).toEqual({ state: 'mismatch' });
    }
    expect(await store.listVersion()).toBe(version);
    expect(await store.createAll(rows, key)).toEqual({ ...created, state: 'replayed' });
  });

  test('5: clients, endpoints and keys are apart, in every letter', async () => {
    const rows = rowsOf(1);
    const key = keyFor(rows, { client: 'key:shop', key: `k-${randomUUID()}`, endpoint: 'one' });
    const members: Partial<CreationKey>[] = [
      { client: 'key:Shop' },
      { client: 'jwt:shop' },
      { client: '' },
      { endpoint: 'batch' },
      { key: key.key.toUpperCase() },
      { key: `${key.key}%` },
    ];
    const created: CreationResult[] = [];
    for (const each of [{}, ...members]) {
      expect(await store.findCreation({ ...key, ...each })).toBeUndefined();
      created.push(await store.createAll(rows, { ...key, ...each }));
    }
    expect(created.map(({ state }) => state)).toEqual(created.map(() => 'created'));
    for (const [index, each] of [{}, ...members].entries()) {
      expect(await store.createAll(rows, { ...key, ...each })).toEqual({ ...created[index], state: 'replayed' });
    }
  });

  test('6, 7: an expired key is as one that was never used, for the same and for other rows', async () => {
    const [rows, others] = [rowsOf(1), rowsOf(2)];
    const [key, other] = [keyFor(rows, { idempotencyTtlMs: SHORT_MS }), keyFor(rows, { idempotencyTtlMs: SHORT_MS })];
    const first = await store.createAll(rows, key);
    await store.createAll(rows, other);
    await pass(SHORT_MS);
    expect(await store.findCreation(key)).toBeUndefined();
    const again = await store.createAll(rows, { ...key, idempotencyTtlMs: LONG_MS });
    if (first.state !== 'created' || again.state !== 'created') throw new Error('not created');
    expect(again.firstId).toBeGreaterThan(first.firstId);
    expect(await store.createAll(rows, key)).toEqual({ ...again, state: 'replayed' });
    const forOthers = await store.createAll(others, { ...other, fingerprint: fingerprintOf(others) });
    expect(forOthers.state).toBe('created');
    await expectStored(others, forOthers);
  });

  test('7: looking for a key finds what was created, and else creates nothing', async () => {
    const rows = rowsOf(2);
    const key = keyFor(rows);
    const version = await store.listVersion();
    expect(await store.findCreation(key)).toBeUndefined();
    expect(await store.listVersion()).toBe(version);
    const created = await store.createAll(rows, key);
    expect(await store.findCreation(key)).toEqual({ ...created, state: 'replayed' });
  });

  test('8: a repeat gets rows as they were created, although they were changed and removed since', async () => {
    const rows = rowsOf(3);
    const key = keyFor(rows);
    const created = await store.createAll(rows, key);
    if (created.state !== 'created') throw new Error('not created');
    await store.changeStatus(created.firstId, 'FLAGGED');
    await store.remove(created.firstId + 1);
    expect(await store.createAll(rows, key)).toEqual({ ...created, state: 'replayed' });
    expect(await store.get(created.firstId)).toMatchObject({ status: 'FLAGGED' });
    expect(await store.get(created.firstId + 1)).toBeUndefined();
  });

  test('9: ids rise from one acknowledged create to the next, whatever creates, and are never given twice', async () => {
    const ids: number[] = [];
    let highest = 0;
    async function writes(round: number): Promise<void> {
      const rows = rowsOf(round % 4 === 0 ? 50 : 1);
      const before = highest;
      const key = round % 3 === 0 ? undefined : keyFor(rows);
      const result = await store.createAll(rows, key);
      if (result.state !== 'created') throw new Error(result.state);
      const { id } = await store.create({ fromAccount: 'A', toAccount: 'B', amount: '1', status: 'PENDING' });
      expect(result.firstId).toBeGreaterThan(before);
      expect(id).toBeGreaterThan(result.firstId + rows.length - 1);
      ids.push(...rows.map((_, index) => result.firstId + index), id);
      highest = Math.max(highest, id);
    }
    for (let round = 0; round < 4; round += 1) {
      await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => writes(round * AT_ONCE + index)));
    }
    expect(new Set(ids).size).toBe(ids.length);
  });
}
