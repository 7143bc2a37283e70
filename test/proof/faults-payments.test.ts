import { describe, expect, test } from 'vitest';
import type { ChargeLine } from '#idempay/reference-processor/charge-log.js';
import {
  checkPayments,
  type KeptPayment,
  PAYMENT_RULES,
  type PaymentEvidence,
} from '../../testkit/checkers/payments.js';
import type { Disturbance } from '../../testkit/history/disturbances.js';
import { DECLINED, type Exchange, type KeyHistory } from '../../testkit/history/payments.js';

const KEY = '01a1f94b-4fd8-7058-b4d2-b234378f0ee5';
const OTHER_KEY = '01a1f94b-4fd8-7058-b4d2-b234378f0ee6';
const MONEY = { amount: '12.50', currency: 'EUR' };

/** A request for the key, answered after ten milliseconds. */
function exchange(sentAt: number, status: number, more: Partial<Exchange> = {}): Exchange {
  return { what: 'pay', to: 'service 1', sentAt, endedAt: sentAt + 10, status, ...more };
}
const first = (sentAt: number, outcome = 'TXN1') => exchange(sentAt, 200, { outcome, isFirst: true });
const repeat = (sentAt: number, outcome = 'TXN1') => exchange(sentAt, 200, { outcome });
const status = (sentAt: number, code: number) => exchange(sentAt, code, { what: 'status' });

function history(exchanges: Exchange[], more: Partial<KeyHistory> = {}): KeyHistory {
  return { key: KEY, ...MONEY, issuedAt: 0, receivedAt: 5, exchanges, finishedAfterMs: 0, ...more };
}

function charge(more: Partial<ChargeLine> = {}): ChargeLine {
  return { reference: KEY, transactionId: 'TXN1', ...MONEY, status: 'succeeded', at: '', ...more } as ChargeLine;
}

function kept(more: Partial<KeptPayment> = {}): KeptPayment {
  return { idempotencyKey: KEY, state: 'COMPLETED', ...MONEY, transactionId: 'TXN1', attempts: 1, ...more };
}

/** Claimed at that moment of the clients' clock. */
function claimedAt(moment: number): Partial<KeptPayment> {
  return { claimedAt: new Date(performance.timeOrigin + moment).toISOString() };
}

function disturbed(of: string, from: number, to: number, forgets?: Disturbance['forgets']): Disturbance {
  return { of, from, to, forgets };
}

/** One payment that went as it should, changed by what a test is about. */
function evidence(more: Partial<PaymentEvidence> = {}): PaymentEvidence {
  return {
    keys: [history([first(100), repeat(200), exchange(300, 200, { what: 'status', outcome: 'TXN1' })])],
    charges: [charge()],
    kept: [kept()],
    disturbances: [],
    leaseMs: 2_000,
    stuckAfterMs: 5_000,
    ...more,
  };
}

/** A key that was never charged. */
function unpaid(exchanges: Exchange[], disturbances: Disturbance[] = [], more: Partial<KeyHistory> = {}) {
  return { keys: [history(exchanges, more)], charges: [], kept: [], disturbances };
}

const declined = { charges: [charge({ status: 'declined', reason: 'no' })], kept: [kept({ state: 'DECLINED' })] };
const decline = (sentAt: number) => exchange(sentAt, 402, { outcome: DECLINED });
const verdict = {
  keys: [history([exchange(1, 504), decline(50)])],
  kept: [kept({ state: 'DECLINED', resolution: 'insufficient funds' })],
  verdicts: new Set([KEY]),
};
const killed = disturbed('service 1', 105, 400);

describe('the checker of payments accepts', () => {
  test.each<[string, Partial<PaymentEvidence>]>([
    ['a payment answered once as new and repeated', {}],
    ['one that was only ever repeated', { keys: [history([exchange(1, 504), repeat(100)])] }],
    ['two requests at once, of which one is new', { keys: [history([first(100), repeat(101)])] }],
    ['a repeat that was answered before the first answer came', { keys: [history([repeat(100), first(99)])] }],
    [
      'refusals before the outcome',
      { keys: [history([exchange(1, 503), exchange(20, 409), exchange(40, 0), first(60)])] },
    ],
    ['a store that is away after the outcome', { keys: [history([first(1), exchange(20, 503), exchange(40, 0)])] }],
    [
      'a decline, of which payment-status knows nothing',
      { ...declined, keys: [history([exchange(1, 402, { outcome: DECLINED, isFirst: true }), status(30, 404)])] },
    ],
    ["an operator's decline where the processor has no charge", { ...verdict, charges: [] }],
    ['a key that was never paid', { keys: [history([])], charges: [], kept: [] }],
    ['simulated payments, of which there is no log', { charges: undefined }],
    [
      'a payment that is left PROCESSING on purpose',
      {
        keys: [history([exchange(1, 504)])],
        kept: [kept({ state: 'PROCESSING' })],
        unresolved: new Set([KEY]),
        stuckAfterMs: undefined as never,
      },
    ],
  ])('%s', (_what, more) => {
    expect(checkPayments(evidence(more))).toEqual([]);
  });
});

describe('the checker of payments rejects', () => {
  const { oneCharge, paidMeansCharged, oneOutcome, nothingLost, notStuck, chargedMeansCompleted, promisedAnswers } =
    PAYMENT_RULES;
  test.each<[string, string, Partial<PaymentEvidence>]>([
    ['a second charge of a key', oneCharge, { charges: [charge(), charge()] }],
    ['a 2xx without a charge', paidMeansCharged, { charges: [] }],
    ['a 2xx for a decline', paidMeansCharged, { charges: declined.charges }],
    ['a decline that was charged', paidMeansCharged, { keys: [history([decline(1)])] }],
    ['two ids for one key', oneOutcome, { keys: [history([first(1), repeat(50, 'TXN2')])] }],
    ['another id than was charged', oneOutcome, { charges: [charge({ transactionId: 'TXN2' })] }],
    [
      'another id than is kept, without a log of charges',
      oneOutcome,
      { charges: undefined, kept: [kept({ transactionId: 'TXN2' })] },
    ],
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
    ['an outcome answered as new twice', oneOutcome, { keys: [history([first(1), first(2)])] }],
    ['an outcome answered as new after it was known', oneOutcome, { keys: [history([repeat(1), first(50)])] }],
    ['a resolution that no operator gave', oneOutcome, { kept: [kept({ resolution: 'paid by cheque' })] }],
    ['an acknowledged payment that is gone', nothingLost, { kept: [] }],
    ['an acknowledged payment that is declined later', nothingLost, { kept: [kept({ state: 'DECLINED' })] }],
    ['504 after the outcome', nothingLost, { keys: [history([first(1), exchange(50, 504)])] }],
    ['404 of the status after the outcome', nothingLost, { keys: [history([first(1), status(50, 404)])] }],
    ['a payment whose outcome was never answered', nothingLost, { keys: [history([exchange(1, 504)])] }],
    ["an operator's decline of what was charged", chargedMeansCompleted, verdict],
    [
      'a decline that neither an operator nor the processor knows of',
      paidMeansCharged,
      { keys: [history([decline(50)])], charges: [], kept: [kept({ state: 'DECLINED' })] },
    ],
    ['a key without an outcome', notStuck, { keys: [history([first(1)], { finishedAfterMs: undefined as never })] }],
    ['a key that took too long', notStuck, { keys: [history([first(1)], { finishedAfterMs: 5_001 })] }],
    ['a payment that is still PROCESSING', notStuck, { ...unpaid([]), kept: [kept({ state: 'PROCESSING' })] }],
    ['a charge without its payment', chargedMeansCompleted, { keys: [history([])], kept: [] }],
    ['a charge of a payment that is DECLINED', chargedMeansCompleted, { keys: [history([])], kept: declined.kept }],
    ['a charge of another amount', chargedMeansCompleted, { charges: [charge({ amount: '12.51' })] }],
    ['a payment kept with another amount', chargedMeansCompleted, { kept: [kept({ currency: 'USD' })] }],
    ['a charge under another id than is kept', chargedMeansCompleted, { kept: [kept({ transactionId: 'TXN2' })] }],
    ['a reason that the processor did not give', chargedMeansCompleted, { kept: [kept({ reason: 'no funds' })] }],
    ['a charge for a key that was issued to nobody', promisedAnswers, { keys: [] }],
    [
      'an answer that says something else',
      promisedAnswers,
      { keys: [history([first(1), exchange(50, 503, { text: 'x' })])] },
    ],
  ])('%s', (_what, rule, more) => {
    const rules = checkPayments(evidence(more)).map((violation) => violation.rule);
    expect(rules).toContain(rule);
  });

  test('and names the key with all that is known of it', () => {
    const [violation] = checkPayments(evidence({ charges: [charge(), charge()] }));
    expect(violation).toMatchObject({ subject: KEY, history: [{ key: KEY }, { reference: KEY }, {}, {}] });
  });
});

/** Each refusal of a key has a reason of its own: what excuses it, and the nearest case that does not. */
describe.each<[string, string, [string, Partial<PaymentEvidence>][], [string, Partial<PaymentEvidence>][]]>([
  [
    '409 before the outcome',
    PAYMENT_RULES.promisedAnswers,
    [
      ['another request of the key was under way', { keys: [history([first(100), exchange(105, 409)])] }],
      [
        'an earlier request may have left its row to recovery',
        { keys: [history([exchange(1, 504), exchange(9_000, 409), repeat(9_100)])], kept: [kept(claimedAt(5))] },
      ],
      ['an earlier request may have left its lock', unpaid([exchange(1, 0, { failure: 'cut' }), exchange(2_000, 409)])],
      [
        'the process that had an earlier request stood still until a lease ago',
        unpaid([exchange(1, 0, { failure: 'late' }), exchange(6_000, 409)], [disturbed('service 1', 0, 5_000)]),
      ],
    ],
    [
      ['it is the only request of the key', unpaid([exchange(100, 409)], [disturbed('redis', 0, 1_000)])],
      ['all earlier requests were answered', unpaid([exchange(1, 409), exchange(50, 409)])],
      ['the earlier request never arrived', unpaid([exchange(1, 0, { failure: 'refused' }), exchange(50, 409)])],
      ['the lock of the earlier request was over', unpaid([exchange(1, 0, { failure: 'cut' }), exchange(6_000, 409)])],
      [
        'the process that stood still had no request of the key',
        unpaid([exchange(1, 0, { failure: 'late' }), exchange(6_000, 409)], [disturbed('service 2', 0, 5_000)]),
      ],
      [
        'the request under way was of another key',
        {
          ...unpaid([exchange(100, 409)]),
          keys: [history([exchange(100, 409)]), history([exchange(95, 0)], { key: OTHER_KEY })],
        },
      ],
    ],
  ],
  [
    '409 after the outcome',
    PAYMENT_RULES.nothingLost,
    [],
    [
      ['nothing was disturbed', { keys: [history([first(1), exchange(5_000, 409)])] }],
      [
        'its owner was killed and left its lock',
        { keys: [history([first(100), exchange(1_000, 409)])], disturbances: [killed] },
      ],
      ['another repeat holds the lock', { keys: [history([first(100), repeat(200), exchange(205, 409)])] }],
    ],
  ],
  [
    '400',
    PAYMENT_RULES.nothingLost,
    [
      [
        'Redis lost everything while the key was there',
        unpaid([exchange(50, 400)], [disturbed('redis', 20, 40, 'everything')]),
      ],
      [
        'Redis lost the latest, and with it this key',
        unpaid([exchange(5_000, 400)], [disturbed('redis', 2, 40, 'the latest')]),
      ],
      [
        'it was claimed only afterwards',
        {
          keys: [history([exchange(50, 400), repeat(900)])],
          kept: [kept(claimedAt(800))],
          disturbances: [disturbed('redis', 20, 40, 'everything')],
        },
      ],
    ],
    [
      ['nothing was disturbed', unpaid([exchange(50, 400)])],
      ['Redis was killed and lost nothing', unpaid([exchange(50, 400)], [disturbed('redis', 20, 40)])],
      [
        'Redis lost everything before the key was issued',
        unpaid([exchange(950, 400)], [disturbed('redis', 20, 40, 'everything')], { issuedAt: 900, receivedAt: 905 }),
      ],
      ['Redis lost everything afterwards', unpaid([exchange(50, 400)], [disturbed('redis', 70, 90, 'everything')])],
      [
        'Redis lost the latest, and the key was older',
        unpaid([exchange(9_000, 400)], [disturbed('redis', 5_000, 8_000, 'the latest')]),
      ],
      [
        'the outcome was known',
        { keys: [history([first(1), exchange(50, 400)])], disturbances: [disturbed('redis', 20, 30, 'everything')] },
      ],
      [
        'it had been answered 504',
        {
          keys: [history([exchange(1, 504), exchange(50, 400), repeat(90)])],
          disturbances: [disturbed('redis', 20, 40, 'everything')],
        },
      ],
      [
        'it had been answered that it will be charged',
        {
          keys: [history([exchange(1, 503, { isClaimed: true }), exchange(50, 400), repeat(90)])],
          disturbances: [disturbed('redis', 20, 40, 'everything')],
        },
      ],
      [
        'it had been claimed, although nobody was answered so',
        {
          keys: [history([exchange(1, 0), exchange(900, 400), repeat(950)])],
          kept: [kept(claimedAt(5))],
          disturbances: [disturbed('redis', 20, 40, 'everything')],
        },
      ],
    ],
  ],
])('%s', (_what, rule, excused, blamed) => {
  if (excused.length > 0) {
    test.each(excused)('is accepted where %s', (_why, more) => {
      expect(checkPayments(evidence(more))).toEqual([]);
    });
  }
  test.each(blamed)('is a violation where %s', (_why, more) => {
    expect(checkPayments(evidence(more)).map((violation) => violation.rule)).toContain(rule);
  });
});
