import { describe, expect, test } from 'vitest';
import type { ChargeLine } from '#idempay/reference-processor/charge-log.js';
import {
  checkPayments,
  type KeptPayment,
  PAYMENT_RULES,
  type PaymentEvidence,
} from '../../testkit/checkers/payments.js';
import { checkRefusals, type RefusalEvidence } from '../../testkit/checkers/refusals.js';
import { type Disturbance, PROCESSOR_REPLIES } from '../../testkit/history/disturbances.js';
import type { Refusal } from '../../testkit/history/history.js';
import { CANCELLED, CLAIMED_TEXT, DECLINED, type Exchange, type KeyHistory } from '../../testkit/history/payments.js';
import { textOf } from '../../testkit/protocol/contents.js';

const KEY = '01a1f94b-4fd8-7058-b4d2-b234378f0ee5';
const OTHER_KEY = '01a1f94b-4fd8-7058-b4d2-b234378f0ee6';
const MONEY = { amount: '12.50', currency: 'EUR' };

type Evidence = Partial<PaymentEvidence>;

/** A request for the key, answered after ten milliseconds. */
function exchange(sentAt: number, status: number, more: Partial<Exchange> = {}): Exchange {
  return { what: 'pay', to: 'service 1', sentAt, endedAt: sentAt + 10, status, ...more };
}
const first = (sentAt: number, outcome = 'TXN1') => exchange(sentAt, 200, { outcome, isFirst: true });
const repeat = (sentAt: number, outcome = 'TXN1') => exchange(sentAt, 200, { outcome });
const decline = (sentAt: number) => exchange(sentAt, 402, { outcome: DECLINED });
const status = (sentAt: number, code: number) => exchange(sentAt, code, { what: 'status' });
const failed = (sentAt: number, failure: Exchange['failure']) => exchange(sentAt, 0, { failure });

function history(exchanges: Exchange[], more: Partial<KeyHistory> = {}): KeyHistory {
  return { key: KEY, ...MONEY, issuedAt: 0, receivedAt: 5, exchanges, finishedAfterMs: 0, ...more };
}
const answers = (...exchanges: Exchange[]) => ({ keys: [history(exchanges)] });
const charge = (more: Partial<ChargeLine> = {}): ChargeLine =>
  ({ reference: KEY, transactionId: 'TXN1', ...MONEY, status: 'succeeded', at: '', ...more }) as ChargeLine;
const kept = (more: Partial<KeptPayment> = {}): KeptPayment => {
  return { idempotencyKey: KEY, state: 'COMPLETED', ...MONEY, transactionId: 'TXN1', executions: 1, ...more };
};
/** Claimed at that moment of the clients' clock. */
const claimedAt = (moment: number): Evidence => {
  return { kept: [kept({ claimedAt: new Date(performance.timeOrigin + moment).toISOString() })] };
};
const disturbed = (of: string, from: number, to: number, forgets?: Disturbance['forgets']): Evidence => {
  return { disturbances: [{ of, from, to, forgets }] };
};

/** One payment that went as it should, changed by what a test is about. */
function rulesBroken(...changes: Evidence[]): string[] {
  const evidence: PaymentEvidence = {
    ...answers(first(100), repeat(200), exchange(300, 200, { what: 'status', outcome: 'TXN1' })),
    ...{ charges: [charge()], kept: [kept()], disturbances: [], leaseMs: 2_000, stuckAfterMs: 5_000 },
  };
  return checkPayments(Object.assign(evidence, ...changes)).map(({ rule }) => rule);
}

const UNPAID: Evidence = { charges: [], kept: [] };
const unpaid = (...exchanges: Exchange[]) => ({ ...UNPAID, ...answers(...exchanges) });
const processing: Evidence = { kept: [kept({ state: 'PROCESSING' })] };
const declined: Evidence = {
  charges: [charge({ status: 'declined', reason: 'no' })],
  kept: [kept({ state: 'DECLINED' })],
};
const verdict: Evidence = {
  ...answers(exchange(1, 504), decline(50)),
  kept: [kept({ state: 'DECLINED', resolution: 'insufficient funds' })],
  verdicts: new Set([KEY]),
};
const simulated: Evidence = { charges: undefined };
const twoKeys: Evidence = {
  keys: [history([first(1)]), history([first(1)], { key: OTHER_KEY })],
  charges: [charge(), charge({ reference: OTHER_KEY })],
  kept: [kept(), kept({ idempotencyKey: OTHER_KEY })],
};
/** Attempts at one reference, each with a key of its own, and what the processor's log and the rows say of them. */
function attempts(
  ...states: readonly (readonly ['succeeded' | 'declined' | undefined, KeptPayment['state']])[]
): Evidence {
  const of = states.map(([status, state], index) => {
    const [key, order] = [`${KEY.slice(0, -1)}${index}`, { reference: 'order-17', attempt: index + 1 }];
    const id = `TXN${index + 1}`;
    const outcome = { COMPLETED: id, DECLINED, CANCELLED }[state as string];
    const money = state === 'CANCELLED' ? { amount: null, currency: null, transactionId: null } : { transactionId: id };
    const line = {
      reference: key,
      order: order.reference,
      transactionId: id,
      status,
      ...(status === 'declined' && { reason: 'no' }),
    };
    return {
      history: history(outcome ? [exchange(100 * index, 200, { outcome, key })] : [], { key, order }),
      charges: status ? [charge(line as Partial<ChargeLine>)] : [],
      kept: kept({ idempotencyKey: key, state, ...money }),
    };
  });
  const [keys, charges] = [of.map((each) => each.history), of.flatMap((each) => each.charges)];
  return { keys, charges, kept: of.map((each) => each.kept) };
}
const twoKeysOfAReference = {
  keys: [
    history([first(100), { ...repeat(200), key: KEY }, { ...repeat(300), key: OTHER_KEY }], {
      order: { reference: 'order-17', attempt: 1 },
    }),
  ],
};
/** A cancellation ended the first attempt of the order at the processor, and closed the second, whose key no answer named. */
const endedOrder = (asked: Exchange['what'] = 'cancel', second: Partial<KeptPayment> = {}): Evidence => {
  const { keys = [], charges, kept: rows = [] } = attempts(['declined', 'DECLINED'], [undefined, 'CANCELLED']);
  const order = { reference: 'order-17' };
  const [key] = keys as [KeyHistory];
  const ended = exchange(100, 200, { what: asked, outcome: asked === 'cancel' ? CANCELLED : DECLINED, key: key.key });
  const [first, next] = rows as [KeptPayment, KeptPayment];
  return {
    keys: [{ ...key, exchanges: [ended] }],
    charges,
    kept: [
      { ...first, ...order, attempt: 1, ending: 'order' },
      { ...next, ...order, attempt: 2, ...second },
    ],
  };
};
const FIRST_CONTENT = { source: 'tok_1', description: 'Shoes', metadata: { b: '1', a: '2' } };
const SECOND_CONTENT = { source: 'tok_2', description: 'Hat' };
/** Two requests with different contents were sent before the outcome. `line` is what was charged, and `shown` what the record shows. */
const charged = (line: Partial<ChargeLine>, shown: Partial<KeptPayment>): Evidence => {
  const contents = new Set([FIRST_CONTENT, SECOND_CONTENT].map(textOf));
  return { keys: [history([first(100)], { contents })], charges: [charge(line)], kept: [kept(shown)] };
};
const SHOWN = { description: 'Shoes', metadata: FIRST_CONTENT.metadata };
const besideOtherKey = { keys: [history([exchange(100, 409)]), history([exchange(95, 0)], { key: OTHER_KEY })] };
const leftProcessing = { ...answers(exchange(1, 504)), ...processing, unresolved: new Set([KEY]) };
const forgot = disturbed('redis', 20, 40, 'everything');
const forgotLatest = (from: number, to: number) => disturbed('redis', from, to, 'the latest');
const issuedLater = { keys: [history([exchange(950, 400)], { issuedAt: 900, receivedAt: 905 })] };
/** A cancellation after an unknown outcome was told that the payment cannot be ended. */
const notEnded = answers(exchange(1, 504), exchange(50, 409, { what: 'cancel', isNotEnded: true }), repeat(100));
const leftToRecovery = answers(exchange(1, 504), exchange(9_000, 409), repeat(9_100));
const lateBefore409 = unpaid(failed(1, 'late'), exchange(6_000, 409));
/** Beside a repeat that is under way. */
const paid409 = answers(first(100), repeat(200), exchange(205, 409));
const claimed400 = answers(exchange(1, 503, { isClaimed: true }), exchange(50, 400), repeat(90));
const unanswered400 = answers(exchange(1, 0), exchange(900, 400), repeat(950));
const stoodStill = (of: string) => disturbed(of, 0, 5_000);

describe('the checker of payments accepts', () => {
  test.each<[string, ...Evidence[]]>([
    ['a payment answered once as new and repeated', {}],
    ['one that was only ever repeated', answers(exchange(1, 504), repeat(100))],
    ['two requests at once, of which one is new', answers(first(100), repeat(101))],
    ['a repeat that was answered before the first answer came', answers(repeat(100), first(99))],
    ['refusals before the outcome', answers(exchange(1, 503), exchange(20, 409), exchange(40, 0), first(60))],
    ['a store that is down after the outcome', answers(first(1), exchange(20, 503), exchange(40, 0))],
    ['a decline, of which payment-status knows nothing', declined, answers(decline(1), status(30, 404))],
    ["an operator's decline where the processor has no charge", verdict, { charges: [] }],
    ['a key that was never paid', unpaid()],
    ['a charge with what one of two requests said', charged(FIRST_CONTENT, SHOWN)],
    [
      'a third attempt after two declines',
      attempts(['declined', 'DECLINED'], ['declined', 'DECLINED'], ['succeeded', 'COMPLETED']),
    ],
    ['an attempt that was cancelled after a decline', attempts(['declined', 'DECLINED'], [undefined, 'CANCELLED'])],
    ['the next attempt, which a cancellation of the order closed', endedOrder()],
    ['simulated payments, of which there is no log', simulated],
    ['a payment that is left PROCESSING on purpose', leftProcessing, { stuckAfterMs: undefined as never }],
    ['409 while another request of the key was under way', answers(first(100), exchange(105, 409))],
    ['409 when an earlier request may have left its row to recovery', leftToRecovery, claimedAt(5)],
    ['409 to a cancellation at a processor that deduplicates nothing', notEnded, claimedAt(0), { deduplicates: false }],
    ['409 when it may have left its lock', unpaid(failed(1, 'cut'), exchange(2_000, 409))],
    ['409 when its process stood still until a lease ago', lateBefore409, stoodStill('service 1')],
    ['400 when Redis lost everything while the key was there', unpaid(exchange(50, 400)), forgot],
    ['400 when Redis lost the latest, and with it this key', unpaid(exchange(5_000, 400)), forgotLatest(2, 40)],
    ['400 when it was claimed only later', answers(exchange(50, 400), repeat(900)), claimedAt(800), forgot],
  ])('%s', (_what, ...evidence) => {
    expect(rulesBroken(...evidence)).toEqual([]);
  });
});

describe('the checker of payments rejects', () => {
  const {
    oneCharge,
    oneChargePerReference,
    inTurn,
    oneKey,
    paidMeansCharged,
    oneOutcome,
    nothingLost,
    notStuck,
    chargedMeansCompleted,
    sameContent,
    promisedAnswers,
  } = PAYMENT_RULES;
  test.each<[string, string, ...Evidence[]]>([
    ['a second charge of a key', oneCharge, { charges: [charge(), charge()] }],
    [
      'a second charge of a reference',
      oneChargePerReference,
      attempts(['succeeded', 'COMPLETED'], ['succeeded', 'COMPLETED']),
    ],
    [
      'a charge of an attempt after one that is paid',
      inTurn,
      attempts(['succeeded', 'COMPLETED'], ['declined', 'DECLINED']),
    ],
    [
      'a charge of an attempt after one that was cancelled',
      inTurn,
      attempts([undefined, 'CANCELLED'], ['succeeded', 'COMPLETED']),
    ],
    ['a cancelled attempt that nobody asked to cancel', promisedAnswers, endedOrder('pay')],
    ['an attempt after the one that a cancellation closed', promisedAnswers, endedOrder('cancel', { attempt: 3 })],
    [
      'a charge of the attempt that a cancellation closed',
      promisedAnswers,
      endedOrder('cancel', { state: 'COMPLETED' }),
    ],
    ['two keys of one attempt', oneKey, twoKeysOfAReference],
    ['a cancellation that was refused at a processor that deduplicates', promisedAnswers, notEnded, claimedAt(0)],
    ['a charge of what was cancelled', chargedMeansCompleted, attempts(['succeeded', 'CANCELLED'])],
    ['a 2xx without a charge', paidMeansCharged, { charges: [] }],
    ['a 2xx for a decline', paidMeansCharged, { charges: declined.charges }],
    ['a decline that was charged', paidMeansCharged, answers(decline(1))],
    ['a decline that nobody decided', paidMeansCharged, answers(decline(50)), declined, { charges: [] }],
    ['two ids for one key', oneOutcome, answers(first(1), repeat(50, 'TXN2'))],
    ['another id than was charged', oneOutcome, { charges: [charge({ transactionId: 'TXN2' })] }],
    ['another id than is kept', oneOutcome, simulated, { kept: [kept({ transactionId: 'TXN2' })] }],
    ['one id for two keys', oneOutcome, twoKeys],
    ['two payments of one key', oneOutcome, { kept: [kept(), kept()] }],
    ['an outcome answered as new twice', oneOutcome, answers(first(1), first(2))],
    ['an outcome answered as new after it was known', oneOutcome, answers(repeat(1), first(50))],
    ['a resolution that no operator gave', oneOutcome, { kept: [kept({ resolution: 'paid by cheque' })] }],
    ['an acknowledged payment that is gone', nothingLost, { kept: [] }],
    ['an acknowledged payment that is declined later', nothingLost, { kept: declined.kept }],
    ['504 after the outcome', nothingLost, answers(first(1), exchange(50, 504))],
    ['404 of the status after the outcome', nothingLost, answers(first(1), status(50, 404))],
    ['a payment whose outcome was never answered', nothingLost, answers(exchange(1, 504))],
    ["an operator's decline of what was charged", chargedMeansCompleted, verdict],
    ['a key without an outcome', notStuck, { keys: [history([first(1)], { finishedAfterMs: undefined as never })] }],
    ['a key that took too long', notStuck, { keys: [history([first(1)], { finishedAfterMs: 5_001 })] }],
    ['a payment that is still PROCESSING', notStuck, answers(), { charges: [] }, processing],
    ['a charge without its payment', chargedMeansCompleted, answers(), { kept: [] }],
    ['a charge of a payment that is DECLINED', chargedMeansCompleted, answers(), { kept: declined.kept }],
    ['a charge of another amount', chargedMeansCompleted, { charges: [charge({ amount: '12.51' })] }],
    ['a payment kept with another amount', chargedMeansCompleted, { kept: [kept({ currency: 'USD' })] }],
    ['a charge under another id than is kept', chargedMeansCompleted, { kept: [kept({ transactionId: 'TXN2' })] }],
    ['a charge with a source that nobody sent', sameContent, { charges: [charge({ source: 'tok_1' })] }],
    ['a charge without what was sent', sameContent, charged({}, SHOWN)],
    [
      'one with the source of one request and the text of another',
      sameContent,
      charged({ ...FIRST_CONTENT, source: 'tok_2' }, SHOWN),
    ],
    [
      'one whose metadata has another order',
      sameContent,
      charged({ ...FIRST_CONTENT, metadata: { a: '2', b: '1' } }, SHOWN),
    ],
    [
      'two charges about different things',
      sameContent,
      charged(FIRST_CONTENT, SHOWN),
      { charges: [charge(FIRST_CONTENT), charge(SECOND_CONTENT)] },
    ],
    [
      'a payment that is shown with what another request said',
      sameContent,
      charged(FIRST_CONTENT, { description: 'Hat' }),
    ],
    ['a payment that is shown with what nobody said', sameContent, { kept: [kept({ description: 'Shoes' })] }],
    ['a charge for an order that was not named', sameContent, { charges: [charge({ order: 'order-17' })] }],
    ['a reason that the processor did not give', chargedMeansCompleted, { kept: [kept({ reason: 'no funds' })] }],
    ['a charge for a key that was issued to nobody', promisedAnswers, { keys: [] }],
    ['an answer that says something else', promisedAnswers, answers(first(1), exchange(50, 503, { text: 'x' }))],
    // Answers 409 and 400 in the cases that are nearest to the accepted ones.
    ['409 of the only request', promisedAnswers, unpaid(exchange(9, 409)), stoodStill('redis')],
    ['409 when all were answered', promisedAnswers, unpaid(exchange(1, 409), exchange(2, 409), exchange(50, 409))],
    ['409 when the earlier request never arrived', promisedAnswers, unpaid(failed(1, 'refused'), exchange(50, 409))],
    ['409 when the earlier lock was over', promisedAnswers, unpaid(failed(1, 'cut'), exchange(6_000, 409))],
    ['409 when another process stood still', promisedAnswers, lateBefore409, stoodStill('service 2')],
    ['409 when the request under way was of another key', promisedAnswers, UNPAID, besideOtherKey],
    ['409 after the outcome, though its owner was killed', nothingLost, paid409, disturbed('service 1', 105, 400)],
    ['400 when Redis was killed and lost nothing', nothingLost, unpaid(exchange(50, 400)), disturbed('redis', 20, 40)],
    ['400 when Redis lost everything before the issue', nothingLost, UNPAID, issuedLater, forgot],
    ['400 when Redis lost everything afterwards', nothingLost, unpaid(exchange(5, 400)), forgot],
    ['400 of an older key than the latest', nothingLost, unpaid(exchange(9_000, 400)), forgotLatest(5_000, 8_000)],
    ['400 when the outcome was known', nothingLost, answers(first(1), exchange(50, 400)), forgot],
    ['400 after 504', nothingLost, answers(exchange(1, 504), exchange(50, 400), repeat(90)), forgot],
    ['400 after "will be charged"', nothingLost, claimed400, forgot],
    ['400 after a claim that was not answered', nothingLost, unanswered400, claimedAt(5), forgot],
  ])('%s', (_what, rule, ...evidence) => {
    expect(rulesBroken(...evidence)).toContain(rule);
  });

  test('and names the key with all that is known of it', () => {
    const evidence = { ...answers(first(1)), charges: [charge(), charge()], kept: [kept()], disturbances: [] };
    const [violation] = checkPayments({ leaseMs: 2_000, ...evidence });
    expect(violation).toMatchObject({ subject: KEY, history: [{ key: KEY }, { reference: KEY }, {}, {}] });
  });
});

const PAY = 'POST /api/payment';
const LIST = 'GET /api/transactions?from=a';
const CHANGE = 'PUT /api/transactions/1/status';
const GENERATE = 'GET /api/server-generated/generate-key';

function refusal(what: string, more: Partial<Refusal> = {}): Refusal {
  const answer = { to: 'service 1', key: KEY, status: 503, headers: {}, text: '' };
  return { what, ...answer, sentAt: 10_000, endedAt: 10_100, ...more };
}
const cut = refusal(LIST, { status: 0, failure: 'cut' });
const notSent = refusal(PAY, { text: CLAIMED_TEXT });
const during = (of: string, from = 9_900, to = 10_050) => [{ of, from, to }];
const issued = (issuedAt: number) => ({ keys: [history([], { issuedAt })] });
const away = during('processor', 2_000, 3_000);
/** So many payments are in flight at that process, of which three may be (P16). */
const inFlight = (count: number, to = 'service 1') => {
  return { keys: [history(Array(count).fill(exchange(9_000, 200, { to, endedAt: 11_000 })))], maxInFlight: 3 };
};

describe('the checker of refusals', () => {
  type Row = [string, Refusal, RefusalEvidence['disturbances'], Partial<RefusalEvidence>?];
  const broken = ([, one, disturbances, more]: Row) =>
    checkRefusals({ refusals: [one], keys: [], disturbances, ...more });

  test.each<Row>([
    ['a 503 of a process that was killed', refusal(LIST), during('service 1')],
    ['a 503 of a process that stood still just before', refusal(LIST), during('service 1', 7_000, 9_000)],
    ['a payment without Redis', refusal(PAY), during('redis')],
    ['a payment without its processor', refusal(PAY), during('processor')],
    ['a status change without Redis', refusal(CHANGE), during('redis')],
    ['a list without PostgreSQL', refusal(LIST), during('postgres')],
    ['a write on a full disk', refusal('POST /api/transactions'), during('disk')],
    ['a request that took longer than a deadline of its process', refusal(LIST, { endedAt: 11_000 }), []],
    ['a connection that was cut by a kill', cut, during('service 1')],
    ['a connection that was cut by an end that was noticed later', cut, during('service 1', 10_500, 11_000)],
    ['a connection that was refused while its process was down', { ...cut, failure: 'refused' }, during('service 1')],
    ['a payment that was not sent since its key was issued, as the processor was down', notSent, away, issued(1_000)],
    ['a payment that was not sent while replies were lost', notSent, during(PROCESSOR_REPLIES), issued(1_000)],
    ['a first payment beyond the limit of payments in flight at its process', refusal(PAY), [], inFlight(4)],
  ])('accepts %s', (...row) => {
    expect(broken(row)).toEqual([]);
  });

  test.each<Row>([
    ['a 503 without any fault', refusal(PAY), []],
    ['a 503 while another process was killed', refusal(PAY), during('service 2')],
    ['a 503 long after the fault', refusal(PAY), during('redis', 1_000, 6_000)],
    ['a 503 before the fault', refusal(PAY), during('redis', 13_000, 14_000)],
    ['a list without Redis, which it does not need', refusal(LIST), during('redis')],
    ['a new key without PostgreSQL, which it does not need', refusal(GENERATE), during('postgres')],
    ['a status change without the processor, which it does not need', refusal(CHANGE), during('processor')],
    ['a payment alongside a processor that only fails some replies', refusal(PAY), during(PROCESSOR_REPLIES)],
    ['a connection that a living process cut', cut, during('redis')],
    ['a connection that was cut long after the kill', cut, during('service 1', 1_000, 9_000)],
    ['a payment that was not sent, whose key is younger than the fault', notSent, away, issued(9_000)],
    ['a payment long after the processor was down, as it may have been sent', refusal(PAY), away, issued(1_000)],
    ['a payment by reference without any fault', refusal('POST /api/payment?reference=a&attempt=1'), []],
    ['a payment at the limit of payments in flight', refusal(PAY), [], inFlight(3)],
    ['a payment when another process is at its limit', refusal(PAY), [], inFlight(4, 'service 2')],
    ['a list when its process is at its limit', refusal(LIST), [], inFlight(4)],
  ])('rejects %s', (...row) => {
    expect(broken(row)).toHaveLength(1);
  });
});
