import { expect, test } from 'vitest';
import { compareWithKept, keptIn } from '#idempay/payments/compare-with-kept.js';
import type { FindResult } from '#idempay/payments/ports/ledger.js';

const PAYMENT = { key: 'k', transactionId: 'TXN1', processor: 'test' };
const final = (state: 'COMPLETED' | 'DECLINED') => ({ state: 'final', final: { outcome: { state } } }) as FindResult;

test.each([
  ['succeeded', final('DECLINED'), ['COMPLETED', 'DECLINED']],
  ['succeeded', final('COMPLETED'), undefined],
  ['declined', final('COMPLETED'), ['DECLINED', 'COMPLETED']],
  ['declined', final('DECLINED'), undefined],
  ['succeeded', { state: 'cancelled' }, ['COMPLETED', 'CANCELLED']],
  ['declined', { state: 'cancelled' }, undefined],
  ['succeeded', { state: 'abandoned' }, undefined],
  ['succeeded', { state: 'absent' }, undefined],
] as const)('"%s" of a payment whose row is %j raises the alarm %j', (state, found, alarm) => {
  const alarms: unknown[] = [];
  const contradiction = (...members: unknown[]) => alarms.push(members);
  compareWithKept({ contradiction }, PAYMENT, { state, reason: 'no funds' }, keptIn(found));
  expect(alarms).toEqual(alarm ? [[PAYMENT, ...alarm]] : []);
});
