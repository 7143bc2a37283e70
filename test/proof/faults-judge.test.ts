import { describe, expect, test } from 'vitest';
import type { ChargeLine } from '#idempay/reference-processor/charge-log.js';
import { judgeLists, LIST_RULES, type ListAccess, listTag } from '../../testkit/checkers/list-rules.js';
import {
  DECLINED,
  type KeptPayment,
  type KeyHistory,
  type PaymentEvidence,
  type Send,
} from '../../testkit/checkers/payment-evidence.js';
import { judgePayments, PAYMENT_RULES } from '../../testkit/checkers/payment-rules.js';
import {
  type Access,
  DONE,
  FINAL,
  GONE,
  type Input,
  judgeTransactions,
  TRANSACTION_RULES,
} from '../../testkit/checkers/transaction-rules.js';

const KEY = '01a1f94b-4fd8-7058-b4d2-b234378f0ee5';
const OTHER_KEY = '01a1f94b-4fd8-7058-b4d2-b234378f0ee6';
const MONEY = { amount: '12.50', currency: 'EUR' };
const LEASE_MS = 2_000;

/** A request for the key, answered after ten milliseconds. */
function send(sentAt: number, status: number, more: Partial<Send> = {}): Send {
  return { what: 'pay', to: 'service 1', sentAt, endedAt: sentAt + 10, status, ...more };
}
const first = (sentAt: number, outcome = 'TXN1') => send(sentAt, 200, { outcome, isFirst: true });
const repeat = (sentAt: number, outcome = 'TXN1') => send(sentAt, 200, { outcome });

function history(sends: Send[], more: Partial<KeyHistory> = {}): KeyHistory {
  return { key: KEY, ...MONEY, issuedAt: 0, sends, finishedAfterMs: 0, ...more };
}

function charge(more: Partial<ChargeLine> = {}): ChargeLine {
  return { reference: KEY, transactionId: 'TXN1', ...MONEY, status: 'succeeded', at: '', ...more } as ChargeLine;
}

function kept(more: Partial<KeptPayment> = {}): KeptPayment {
  return { idempotencyKey: KEY, state: 'COMPLETED', ...MONEY, transactionId: 'TXN1', attempts: 1, ...more };
}

/** One payment that went as it should, changed by what a test is about. */
function evidence(more: Partial<PaymentEvidence> = {}): PaymentEvidence {
  return {
    keys: [history([first(100), repeat(200), send(300, 200, { what: 'status', outcome: 'TXN1' })])],
    charges: [charge()],
    kept: [kept()],
    forgettings: [],
    disturbances: [],
    verdicts: new Set(),
    leaseMs: LEASE_MS,
    stuckAfterMs: 5_000,
    ...more,
  };
}

function rulesBroken(found: PaymentEvidence): string[] {
  return [...new Set(judgePayments(found).map(({ rule }) => rule))];
}

const declined = { charges: [charge({ status: 'declined', reason: 'no' })], kept: [kept({ state: 'DECLINED' })] };

describe('the judge of payments accepts', () => {
  test.each<[string, Partial<PaymentEvidence>]>([
    ['a payment that was told once as new and repeated', {}],
    ['one that was only ever repeated, because recovery finished it', { keys: [history([send(1, 504), repeat(100)])] }],
    ['two at once, of which one is new', { keys: [history([first(100), repeat(101)])] }],
    ['a repeat that was told before the first answer came', { keys: [history([repeat(100), first(99)])] }],
    ['refusals before the outcome', { keys: [history([send(1, 503), send(20, 409), send(40, 0), first(60)])] }],
    ['a store that is away after the outcome', { keys: [history([first(1), send(20, 503), send(40, 0)])] }],
    [
      'a decline, of which the status knows nothing',
      {
        ...declined,
        keys: [history([send(1, 402, { outcome: DECLINED, isFirst: true }), send(30, 404, { what: 'status' })])],
      },
    ],
    [
      'a key that was forgotten before it was paid',
      { keys: [history([send(50, 400)])], charges: [], kept: [], forgettings: [{ from: 20, to: 40 }] },
    ],
    [
      'a lock that a killed owner left behind',
      { keys: [history([first(100), send(1_000, 409)])], disturbances: [{ from: 105, to: 105 }] },
    ],
    ['a lock that another repeat holds', { keys: [history([first(100), repeat(200), send(205, 409)])] }],
    [
      'a decline by an operator, of which the processor knows nothing',
      {
        keys: [history([send(1, 504), send(50, 402, { outcome: DECLINED })])],
        charges: [],
        kept: [kept({ state: 'DECLINED' })],
        verdicts: new Set([KEY]),
      },
    ],
    ['a key that was never paid', { keys: [history([])], charges: [], kept: [] }],
  ])('%s', (_what, more) => {
    expect(judgePayments(evidence(more))).toEqual([]);
  });
});

describe('the judge of payments rejects', () => {
  const { oneCharge, paidMeansCharged, oneOutcome, nothingLost, notStuck, chargedMeansCompleted, answersAsPromised } =
    PAYMENT_RULES;
  test.each<[string, string, Partial<PaymentEvidence>]>([
    ['a second charge of a key', oneCharge, { charges: [charge(), charge()] }],
    ['a 2xx without a charge', paidMeansCharged, { charges: [] }],
    ['a 2xx for a decline', paidMeansCharged, { charges: declined.charges }],
    ['a decline that was charged', paidMeansCharged, { keys: [history([send(1, 402, { outcome: DECLINED })])] }],
    ['two ids for one key', oneOutcome, { keys: [history([first(1), repeat(50, 'TXN2')])] }],
    ['another id than was charged', oneOutcome, { charges: [charge({ transactionId: 'TXN2' })] }],
    [
      'one id for two keys',
      oneOutcome,
      {
        keys: [history([first(1)]), history([first(1)], { key: OTHER_KEY })],
        charges: [charge(), charge({ reference: OTHER_KEY })],
        kept: [kept(), kept({ idempotencyKey: OTHER_KEY })],
      },
    ],
    ['two payments of one key', oneOutcome, { kept: [kept(), kept()] }],
    ['an outcome told as new twice', oneOutcome, { keys: [history([first(1), first(2)])] }],
    ['an outcome told as new after it was told', oneOutcome, { keys: [history([repeat(1), first(50)])] }],
    ['an acknowledged payment that is gone', nothingLost, { kept: [] }],
    ['an acknowledged payment that is declined later', nothingLost, { kept: [kept({ state: 'DECLINED' })] }],
    ['400 after the outcome', nothingLost, { keys: [history([first(1), send(50, 400)])] }],
    [
      '400 after the outcome, also when the key store forgot',
      nothingLost,
      { keys: [history([first(1), send(50, 400)])], forgettings: [{ from: 20, to: 30 }] },
    ],
    ['504 after the outcome', nothingLost, { keys: [history([first(1), send(50, 504)])] }],
    [
      '404 of the status after the outcome',
      nothingLost,
      { keys: [history([first(1), send(50, 404, { what: 'status' })])] },
    ],
    ['409 after the outcome with nobody at work', nothingLost, { keys: [history([first(1), send(5_000, 409)])] }],
    [
      'a lock that outlives its lease',
      nothingLost,
      { keys: [history([first(1), send(6_000, 409)])], disturbances: [{ from: 5, to: 5 }] },
    ],
    ['400 for a key that nothing forgot', nothingLost, { keys: [history([send(50, 400)])], charges: [], kept: [] }],
    [
      '400 for a key that was under way, also when the key store forgot',
      nothingLost,
      { keys: [history([send(1, 504), send(50, 400), repeat(90)])], forgettings: [{ from: 20, to: 40 }] },
    ],
    [
      "an operator's decline of what was charged",
      chargedMeansCompleted,
      {
        keys: [history([send(50, 402, { outcome: DECLINED })])],
        kept: [kept({ state: 'DECLINED' })],
        verdicts: new Set([KEY]),
      },
    ],
    [
      'a decline that neither an operator nor the processor knows of',
      paidMeansCharged,
      { keys: [history([send(50, 402, { outcome: DECLINED })])], charges: [], kept: [kept({ state: 'DECLINED' })] },
    ],
    [
      'a 503 that says something else',
      answersAsPromised,
      { keys: [history([send(1, 503, { text: 'x' }), first(50)])] },
    ],
    ['a payment that nobody was told of', nothingLost, { keys: [history([send(1, 504)])] }],
    ['a key without an outcome', notStuck, { keys: [history([first(1)], { finishedAfterMs: undefined })] }],
    ['a key that took too long', notStuck, { keys: [history([first(1)], { finishedAfterMs: 5_001 })] }],
    [
      'a payment that is still PROCESSING',
      notStuck,
      { keys: [history([])], charges: [], kept: [kept({ state: 'PROCESSING' })] },
    ],
    ['a charge without its payment', chargedMeansCompleted, { keys: [history([])], kept: [] }],
    ['a charge of a payment that is DECLINED', chargedMeansCompleted, { keys: [history([])], kept: declined.kept }],
    ['a charge of another amount', chargedMeansCompleted, { charges: [charge({ amount: '12.51' })] }],
    ['a payment kept with another amount', chargedMeansCompleted, { kept: [kept({ currency: 'USD' })] }],
    ['a charge under another id than is kept', chargedMeansCompleted, { kept: [kept({ transactionId: 'TXN2' })] }],
    ['a charge for a key that was issued to nobody', answersAsPromised, { keys: [] }],
    [
      'an answer that says something else',
      answersAsPromised,
      { keys: [history([first(1), send(50, 500, { text: 'x' })])] },
    ],
    [
      'a connection that a living process cut',
      answersAsPromised,
      { keys: [history([first(1), send(9, 0, { cutByTheLiving: true })])] },
    ],
  ])('%s', (_what, rule, more) => {
    expect(rulesBroken(evidence(more))).toContain(rule);
  });

  test('and names the key with its whole journal', () => {
    const [violation] = judgePayments(evidence({ charges: [charge(), charge()] }));
    expect(violation).toMatchObject({ subject: KEY, journal: [{ key: KEY }, { reference: KEY }, {}, {}] });
  });
});

/** Accesses one after the other, ten milliseconds each; an output of undefined was never told. */
function accesses(...all: [Input, string | undefined, number?][]): Access[] {
  return all.map(([input, output, invokedAt], index) => {
    const from = invokedAt ?? index * 20;
    return { invokedAt: from, completed: output === undefined ? undefined : { at: from + 10, output }, input };
  });
}
const READ: Input = { what: 'read' };
const DELETE: Input = { what: 'delete' };
const to = (status: string): Input => ({ what: 'change', status });

describe('the judge of transactions', () => {
  test.each<[string, Access[]]>([
    ['reads of the last change', accesses([READ, 'PENDING'], [to('FLAGGED'), DONE], [READ, 'FLAGGED'])],
    ['a change that may have happened', accesses([to('FLAGGED'), undefined], [READ, 'PENDING'], [READ, 'FLAGGED'])],
    ['a change that never happened', accesses([to('FLAGGED'), undefined], [READ, 'PENDING'], [READ, 'PENDING'])],
    ['a delete', accesses([DELETE, DONE], [READ, GONE], [to('FLAGGED'), GONE], [DELETE, GONE])],
    ['a final status', accesses([to('FAILED'), DONE], [to('FLAGGED'), FINAL], [to('FAILED'), DONE], [READ, 'FAILED'])],
    [
      'two changes at once, in either order',
      accesses([to('FLAGGED'), DONE, 0], [to('PENDING'), DONE, 5], [READ, 'PENDING'], [READ, 'PENDING']),
    ],
  ])('accepts %s', (_what, history) => {
    expect(judgeTransactions([{ id: 1, status: 'PENDING', accesses: history }])).toEqual([]);
  });

  test.each<[string, Access[]]>([
    ['a read older than an acknowledged change', accesses([to('FLAGGED'), DONE], [READ, 'PENDING'])],
    ['a read of a deleted one', accesses([DELETE, DONE], [READ, 'PENDING'])],
    ['one that was never deleted and is gone', accesses([READ, GONE])],
    ['a status that nobody set', accesses([READ, 'BLOCKED'])],
    [
      'a read that goes back behind another read',
      accesses([to('FLAGGED'), undefined], [READ, 'FLAGGED'], [READ, 'PENDING']),
    ],
    ['a way out of a final status', accesses([to('FAILED'), DONE], [to('FLAGGED'), DONE])],
    ['a refusal without reason', accesses([to('FLAGGED'), FINAL])],
    ['an acknowledged change that is lost', accesses([to('FLAGGED'), DONE], [to('ON_HOLD'), DONE], [READ, 'FLAGGED'])],
  ])('rejects %s', (_what, history) => {
    expect(judgeTransactions([{ id: 1, status: 'PENDING', accesses: history }])).toMatchObject([
      { rule: TRANSACTION_RULES.notStale, subject: 'transaction 1', journal: history },
    ]);
  });
});

const read = (invokedAt: number, ids: number[], status = 304): ListAccess => {
  return { invokedAt, completed: { at: invokedAt + 10, output: listTag(ids) }, input: 'read', status };
};
const moved = (invokedAt: number, ids: number[]): ListAccess => {
  const movedTo = listTag(ids);
  return { invokedAt, completed: { at: invokedAt + 10, output: movedTo }, input: { movedTo } };
};

describe('the judge of lists', () => {
  test.each<[string, ListAccess[]]>([
    ['an empty list', [read(0, [])]],
    ['either list while one is being created', [moved(0, [1]), moved(50, [1, 2]), read(45, [1]), read(55, [1, 2])]],
    ['a list that is again what it was', [moved(0, [1]), moved(20, [1, 2]), moved(40, [1]), read(60, [1])]],
  ])('accepts %s', (_what, accesses) => {
    expect(judgeLists([{ account: 'a', accesses }])).toEqual([]);
  });

  test.each<[string, ListAccess[]]>([
    ['a 304 for a list that has grown', [moved(0, [1]), moved(20, [1, 2]), read(40, [1])]],
    ['a 304 for a list that has shrunk', [moved(0, [1]), moved(20, [1, 2]), moved(40, [1]), read(60, [1, 2])]],
    ['a list that goes back', [moved(0, [1]), moved(20, [1, 2]), read(21, [1, 2]), { ...read(32, [1]) }]],
    ['a list that never was', [moved(0, [1]), read(20, [2], 200)]],
  ])('rejects %s', (_what, accesses) => {
    expect(judgeLists([{ account: 'a', accesses }])).toMatchObject([{ rule: LIST_RULES.rightTag, subject: 'list a' }]);
  });
});
