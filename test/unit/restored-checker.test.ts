import { expect, test } from 'vitest';
import { listTag } from '../../testkit/checkers/lists.js';
import { checkRestored, RESTORED_RULES, type RestoredEvidence } from '../../testkit/checkers/restored.js';

const ROW = { id: 100000000000001, status: 'PENDING', from: 'a', to: 'b' };
const LOST = 100000000000002;
const MONEY = { amount: '25.00', currency: 'EUR' };
const CHARGE = { reference: 'key 1', order: 'order-1', status: 'succeeded', ...MONEY } as const;
const DECLINED = { ...CHARGE, reference: 'key 2', status: 'declined' } as const;
const EVIDENCE: RestoredEvidence = {
  rows: [ROW],
  reads: [
    { id: ROW.id, status: 'PENDING', at: 'one' },
    { id: LOST, status: 'gone', at: 'one' },
  ],
  lists: [
    { account: 'a', tag: listTag([ROW.id]), isConfirmed: true },
    { account: 'a', tag: listTag([ROW.id, LOST]), isConfirmed: false },
  ],
  ids: [ROW.id, LOST],
  charges: [CHARGE, DECLINED],
  answers: [{ key: 'key 1', ...MONEY }],
  unanswered: [],
};
const rulesBrokenBy = (evidence: Partial<RestoredEvidence>) =>
  checkRestored({ ...EVIDENCE, ...evidence }).map(({ rule }) => rule);

test('what a backup lacks is no violation', () => {
  expect(rulesBrokenBy({})).toEqual([]);
});

test.each<[string, Partial<RestoredEvidence>, string]>([
  ['a second charge', { charges: [CHARGE, DECLINED, DECLINED] }, RESTORED_RULES.oneCharge],
  [
    'a charge of a second attempt at a paid order',
    { charges: [CHARGE, { ...CHARGE, reference: 'key 2' }] },
    RESTORED_RULES.oneChargePerOrder,
  ],
  [
    'another amount that is answered as paid',
    { answers: [{ key: 'key 1', ...MONEY, amount: '26.00' }] },
    RESTORED_RULES.paidAsAnswered,
  ],
  ['a decline that is answered as paid', { answers: [{ key: 'key 2', ...MONEY }] }, RESTORED_RULES.paidAsAnswered],
  ['a charge that is not answered', { unanswered: ['key 1: 422'] }, RESTORED_RULES.answered],
  ['an id given twice', { ids: [LOST, LOST] }, RESTORED_RULES.noIdTwice],
  [
    'a lost transaction that is shown',
    { reads: [{ id: LOST, status: 'PENDING', at: 'one' }] },
    RESTORED_RULES.notStale,
  ],
  ['a lost status that is shown', { reads: [{ id: ROW.id, status: 'FLAGGED', at: 'one' }] }, RESTORED_RULES.notStale],
  [
    'a 304 for a list that is not there',
    { lists: [{ account: 'a', tag: listTag([ROW.id, LOST]), isConfirmed: true }] },
    RESTORED_RULES.rightTag,
  ],
])('%s after a restore is a violation', (_what, evidence, rule) => {
  expect(rulesBrokenBy(evidence)).toEqual([rule]);
});
