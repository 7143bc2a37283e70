import type { ChargeLine } from '#idempay/reference-processor/charge-log.js';
import {
  DECLINED,
  type KeptPayment,
  type KeyHistory,
  type PaymentEvidence,
  type Send,
  type Violation,
} from './payment-evidence.js';

const STATE_OF = { succeeded: 'COMPLETED', declined: 'DECLINED' } as const;
/** Refusals that every client must be ready for at any time. */
const COME_AGAIN = [0, 503];
/** What a busy machine adds between the end of a lease and our knowledge of it. */
const LEASE_SLACK_MS = 1_000;

export const PAYMENT_RULES = {
  oneCharge: 'at most one charge per key',
  paidMeansCharged: 'every 2xx has exactly one charge',
  oneOutcome: 'every answer of one key names the same id',
  nothingLost: 'nothing acknowledged is missing',
  notStuck: 'no key is stuck longer than a lease and a recovery period',
  chargedMeansCompleted: 'every charge belongs to a COMPLETED payment',
  answersAsPromised: 'every answer is one that was promised',
} as const;

/** Holds the clients' log and the processor's log against each other, and against what the service shows. */
export function judgePayments(evidence: PaymentEvidence): Violation[] {
  const { keys, charges, kept } = evidence;
  const histories = new Map(keys.map((history) => [history.key, history]));
  const chargesOf = groupBy(charges, ({ reference }) => reference);
  const keptOf = groupBy(kept, ({ idempotencyKey }) => idempotencyKey);
  const violations: Violation[] = [];

  for (const key of new Set([...histories.keys(), ...chargesOf.keys(), ...keptOf.keys()])) {
    const history = histories.get(key);
    const own = { charges: chargesOf.get(key) ?? [], kept: keptOf.get(key) ?? [] };
    for (const [rule, what] of judgeKey(history, own.charges, own.kept, evidence)) {
      violations.push({ rule, subject: key, what, journal: [history, ...own.charges, ...own.kept] });
    }
  }
  return [...violations, ...sharedIds(keys)];
}

type Finding = readonly [rule: string, what: string];

function* judgeKey(
  history: KeyHistory | undefined,
  charges: readonly ChargeLine[],
  kept: readonly KeptPayment[],
  evidence: PaymentEvidence,
): Generator<Finding> {
  const rules = PAYMENT_RULES;
  if (charges.length > 1) yield [rules.oneCharge, `${charges.length} charges`];
  if (kept.length > 1) yield [rules.oneOutcome, `the service shows ${kept.length} payments of it`];
  const [charge] = charges;
  const [payment] = kept;
  if (charge) yield* judgeCharge(charge, history, payment);
  if (!history) return yield [rules.answersAsPromised, 'a payment with a key that was issued to nobody'];

  const outcomes = new Set(history.sends.flatMap(({ outcome }) => outcome ?? []));
  if (outcomes.size > 1) yield [rules.oneOutcome, [...outcomes].join(', ')];
  const isVerdict = charge === undefined && evidence.verdicts.has(history.key);
  for (const outcome of outcomes) yield* judgeOutcome(outcome, charge, payment, isVerdict);
  if (history.finishedAfterMs === undefined) yield [rules.notStuck, 'it has no outcome'];
  else if (history.finishedAfterMs > evidence.stuckAfterMs) {
    yield [rules.notStuck, `its outcome came ${Math.round(history.finishedAfterMs)} ms after healing`];
  }
  if (payment && !['COMPLETED', 'DECLINED'].includes(payment.state)) yield [rules.notStuck, `it is ${payment.state}`];
  if (payment && outcomes.size === 0)
    yield [rules.nothingLost, 'a payment whose outcome nobody was told after healing'];
  yield* judgeSends(history, evidence);
}

function* judgeCharge(
  charge: ChargeLine,
  history: KeyHistory | undefined,
  payment: KeptPayment | undefined,
): Generator<Finding> {
  const { chargedMeansCompleted } = PAYMENT_RULES;
  if (payment?.state !== STATE_OF[charge.status]) {
    yield [chargedMeansCompleted, `charge ${charge.status}, payment ${payment?.state ?? 'missing'}`];
  }
  if (payment && payment.transactionId !== charge.transactionId) {
    yield [chargedMeansCompleted, `charged as ${charge.transactionId}, kept as ${payment.transactionId}`];
  }
  if (history && !(isSameMoney(charge, history) && (!payment || isSameMoney(payment, history)))) {
    yield [chargedMeansCompleted, 'another amount than its client asked for'];
  }
}

function* judgeOutcome(
  outcome: string,
  charge: ChargeLine | undefined,
  payment: KeptPayment | undefined,
  isVerdict: boolean,
): Generator<Finding> {
  const isPaid = outcome !== DECLINED;
  if (isVerdict && !isPaid) {
    // An operator's word, where the processor knows of no charge.
  } else if (charge?.status !== (isPaid ? 'succeeded' : 'declined')) {
    yield [PAYMENT_RULES.paidMeansCharged, `told ${outcome}, charge ${charge?.status ?? 'missing'}`];
  } else if (isPaid && charge.transactionId !== outcome) {
    yield [PAYMENT_RULES.oneOutcome, `told ${outcome}, charged as ${charge.transactionId}`];
  }
  if (payment?.state !== (isPaid ? 'COMPLETED' : 'DECLINED')) {
    yield [PAYMENT_RULES.nothingLost, `told ${outcome}, payment ${payment?.state ?? 'missing'}`];
  }
}

/** What each answer may be, by what had been told when its request was sent. */
function* judgeSends(history: KeyHistory, evidence: PaymentEvidence): Generator<Finding> {
  const { answersAsPromised, nothingLost, oneOutcome } = PAYMENT_RULES;
  let firsts = 0;
  const toldAt = Math.min(...history.sends.flatMap(({ outcome, endedAt }) => (outcome ? endedAt : [])));
  for (const send of history.sends) {
    if (send.cutByTheLiving) yield [answersAsPromised, `cut off by a living process (${nameOf(send)})`];
    if (send.text !== undefined) yield [answersAsPromised, `${nameOf(send)}: ${send.text}`];
    if (COME_AGAIN.includes(send.status)) continue;
    const wasTold = toldAt < send.sentAt;
    if (send.isFirst) {
      firsts += 1;
      if (firsts > 1) yield [oneOutcome, 'told as new twice'];
      if (wasTold) yield [oneOutcome, `told as new after it was told (${nameOf(send)})`];
    }
    if (send.outcome !== undefined) continue;
    if (send.status === (send.what === 'pay' ? 404 : 400)) yield [answersAsPromised, nameOf(send)];
    const isLocked = send.status === 409 && (isLeftLock(send, evidence) || isRepeatedMeanwhile(history, send));
    const mayBe = isLocked || isStatusOfDecline(history, send);
    if (wasTold && !mayBe) {
      yield [nothingLost, `${nameOf(send)} after its outcome was told`];
    }
    if (send.what === 'pay' && send.status === 400) {
      if (wasClaimed(history, send)) yield [nothingLost, `${nameOf(send)} after it had been under way`];
      else if (!wasForgotten(history, send, evidence)) {
        yield [nothingLost, `${nameOf(send)} although no key was forgotten`];
      }
    }
  }
}

/**
 * The lock is asked before the outcome (spec 4.1 rule 2). One that nobody could give back, because its owner was killed or
 * the key store was away or went back in time, stands until its lease ends.
 */
function isLeftLock(send: Send, { disturbances, leaseMs }: PaymentEvidence): boolean {
  return disturbances.some(({ from, to }) => from <= send.endedAt && to >= send.sentAt - leaseMs - LEASE_SLACK_MS);
}

/** Where the key store was not told of the outcome, or forgot it, a repeat holds the lock while it asks the row. */
function isRepeatedMeanwhile({ sends }: KeyHistory, send: Send): boolean {
  return sends.some((other) => {
    return other !== send && other.what === 'pay' && other.sentAt <= send.endedAt && other.endedAt >= send.sentAt;
  });
}

function isStatusOfDecline(history: KeyHistory, send: Send): boolean {
  return send.what === 'status' && send.status === 404 && history.sends.some(({ outcome }) => outcome === DECLINED);
}

/** 504 is told of a payment that has its row: no key store that forgets can make that go away. */
function wasClaimed({ sends }: KeyHistory, send: Send): boolean {
  return sends.some(({ what, status, endedAt }) => what === 'pay' && status === 504 && endedAt < send.sentAt);
}

function wasForgotten(history: KeyHistory, send: Send, { forgettings }: PaymentEvidence): boolean {
  return forgettings.some(({ from, to }) => from <= send.endedAt && to >= history.issuedAt);
}

function sharedIds(keys: readonly KeyHistory[]): Violation[] {
  const owners = new Map<string, KeyHistory>();
  const violations: Violation[] = [];
  for (const history of keys) {
    const id = history.sends.find(({ outcome }) => outcome && outcome !== DECLINED)?.outcome;
    if (id === undefined) continue;
    const owner = owners.get(id);
    if (owner) {
      const what = `${id} was also told for ${owner.key}`;
      violations.push({ rule: PAYMENT_RULES.oneOutcome, subject: history.key, what, journal: [history, owner] });
    }
    owners.set(id, history);
  }
  return violations;
}

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return groups;
}

function isSameMoney(
  one: { readonly amount: string | null; readonly currency: string | null },
  other: { readonly amount: string | null; readonly currency: string | null },
): boolean {
  return one.amount === other.amount && one.currency === other.currency;
}

function nameOf({ what, to, status }: Send): string {
  return `${what} at ${to}: ${status}`;
}
