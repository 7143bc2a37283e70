import type { ChargeLine } from '#idempay/reference-processor/charge-log.js';
import type { ShownPayment } from '../client/payment-records.js';
import { type Disturbance, wasDisturbed } from '../history/disturbances.js';
import { PROMISED_ANSWERS, type Violation } from '../history/history.js';
import { DECLINED, type Exchange, type KeyHistory } from '../history/payments.js';

const STATE_OF = { succeeded: 'COMPLETED', declined: 'DECLINED' } as const;
/** What a busy machine adds between the end of a lease and our knowledge of it. */
const LEASE_SLACK_MS = 1_000;
/** How far the clock that dates claims may be from ours, on one machine. */
const CLOCK_SLACK_MS = 250;
/** Written so shortly before the master's end, a key may not have reached the replica. */
const REPLICATION_SLACK_MS = 1_000;
/** Answers that leave open whether the payment is under way. */
const OPEN_ANSWERS = [0, 503, 504];

export const PAYMENT_RULES = {
  oneCharge: 'at most one charge per key',
  paidMeansCharged: 'every 2xx has exactly one charge',
  oneOutcome: 'every answer of one key names the same id',
  nothingLost: 'nothing acknowledged is missing',
  notStuck: 'no key is stuck longer than a lease and a recovery period',
  chargedMeansCompleted: 'every charge belongs to a COMPLETED payment',
  promisedAnswers: PROMISED_ANSWERS,
} as const;

/** What the checker reads of a payment that the service shows. */
export type KeptPayment = Pick<ShownPayment, 'idempotencyKey' | 'state' | 'amount' | 'currency' | 'transactionId'> &
  Partial<ShownPayment>;

/** All that the checker reads: logs kept outside the system, and what the system shows once it is at rest. */
export interface PaymentEvidence {
  readonly keys: readonly KeyHistory[];
  /** Undefined: payments are simulated, and nobody keeps a log of charges. */
  readonly charges: readonly ChargeLine[] | undefined;
  readonly kept: readonly KeptPayment[];
  readonly disturbances: readonly Disturbance[];
  readonly leaseMs: number;
  /** Keys whose payments an operator declined, or may have declined: nothing was charged for those. */
  readonly verdicts?: ReadonlySet<string>;
  /** Keys whose payments are left PROCESSING on purpose. */
  readonly unresolved?: ReadonlySet<string>;
  /** A key that has no outcome so long after healing is stuck. Undefined: the clients did not wait for all outcomes. */
  readonly stuckAfterMs?: number;
}

/** Holds the clients' history and the processor's log against each other, and against what the service shows. */
export function checkPayments(evidence: PaymentEvidence): Violation[] {
  const { keys, charges = [], kept } = evidence;
  const histories = new Map(keys.map((history) => [history.key, history]));
  const chargesOf = groupBy(charges, ({ reference }) => reference);
  const keptOf = groupBy(kept, ({ idempotencyKey }) => idempotencyKey);
  const violations: Violation[] = [];

  for (const key of new Set([...histories.keys(), ...chargesOf.keys(), ...keptOf.keys()])) {
    const history = histories.get(key);
    const own = { charges: chargesOf.get(key) ?? [], kept: keptOf.get(key) ?? [] };
    for (const [rule, what] of checkKey(history, own.charges, own.kept, evidence)) {
      violations.push({ rule, subject: key, what, history: [history, ...own.charges, ...own.kept] });
    }
  }
  return [...violations, ...sharedIds(keys)];
}

type Finding = readonly [rule: string, what: string];
const RULES = PAYMENT_RULES;

function* checkKey(
  history: KeyHistory | undefined,
  charges: readonly ChargeLine[],
  kept: readonly KeptPayment[],
  evidence: PaymentEvidence,
): Generator<Finding> {
  if (charges.length > 1) yield [RULES.oneCharge, `${charges.length} charges`];
  if (kept.length > 1) yield [RULES.oneOutcome, `the service shows ${kept.length} payments of it`];
  const [charge] = charges;
  const [payment] = kept;
  if (charge) yield* checkCharge(charge, history, payment, evidence);
  if (!history) return yield [RULES.promisedAnswers, 'a payment with a key that was issued to nobody'];

  const { key, exchanges, finishedAfterMs } = history;
  const outcomes = new Set(exchanges.flatMap(({ outcome }) => outcome ?? []));
  if (outcomes.size > 1) yield [RULES.oneOutcome, [...outcomes].join(', ')];
  for (const outcome of outcomes) yield* checkOutcome(outcome, key, charge, payment, evidence);
  if (payment && payment.state !== 'PENDING') yield* checkKept(payment, history, evidence, outcomes.size > 0);
  if (evidence.stuckAfterMs !== undefined) {
    if (finishedAfterMs === undefined) yield [RULES.notStuck, 'it has no outcome'];
    else if (finishedAfterMs > evidence.stuckAfterMs) {
      yield [RULES.notStuck, `its outcome came ${Math.round(finishedAfterMs)} ms after healing`];
    }
  }
  yield* checkExchanges(history, payment, evidence);
}

function* checkCharge(
  charge: ChargeLine,
  history: KeyHistory | undefined,
  payment: KeptPayment | undefined,
  { unresolved }: PaymentEvidence,
): Generator<Finding> {
  const { chargedMeansCompleted } = RULES;
  const isLeft = payment?.state === 'PROCESSING' && unresolved?.has(payment.idempotencyKey);
  if (payment?.state !== STATE_OF[charge.status] && !isLeft) {
    yield [chargedMeansCompleted, `charge ${charge.status}, payment ${payment?.state ?? 'missing'}`];
  }
  if (payment && payment.transactionId !== charge.transactionId) {
    yield [chargedMeansCompleted, `charged as ${charge.transactionId}, kept as ${payment.transactionId}`];
  }
  if (history && !isSameMoney(charge, history)) yield [chargedMeansCompleted, 'charged another amount than was asked'];
  const reason = charge.status === 'declined' ? charge.reason : null;
  if (payment?.reason !== undefined && payment.reason !== reason && !isLeft) {
    yield [chargedMeansCompleted, `kept reason ${payment.reason}, the processor gave ${reason}`];
  }
}

function* checkOutcome(
  outcome: string,
  key: string,
  charge: ChargeLine | undefined,
  payment: KeptPayment | undefined,
  { charges, verdicts }: PaymentEvidence,
): Generator<Finding> {
  const isPaid = outcome !== DECLINED;
  const isVerdict = !charge && !isPaid && verdicts?.has(key);
  const isSimulated = !charges || payment?.processor === 'simulated';
  if (!isVerdict && !isSimulated && charge?.status !== (isPaid ? 'succeeded' : 'declined')) {
    yield [RULES.paidMeansCharged, `answered ${outcome}, charge ${charge?.status ?? 'missing'}`];
  }
  if (payment?.state !== (isPaid ? 'COMPLETED' : 'DECLINED')) {
    yield [RULES.nothingLost, `answered ${outcome}, payment ${payment?.state ?? 'missing'}`];
  }
  const id = charge?.transactionId ?? payment?.transactionId;
  if (isPaid && id && id !== outcome) yield [RULES.oneOutcome, `answered ${outcome}, charged or kept as ${id}`];
}

function* checkKept(
  payment: KeptPayment,
  history: KeyHistory,
  { unresolved, verdicts, stuckAfterMs }: PaymentEvidence,
  isAnswered: boolean,
): Generator<Finding> {
  const { key } = history;
  if (!isSameMoney(payment, history)) yield [RULES.chargedMeansCompleted, 'kept with another amount than was asked'];
  if (payment.resolution && !verdicts?.has(key)) yield [RULES.oneOutcome, `resolved by nobody: ${payment.resolution}`];
  if (payment.state === 'PROCESSING') {
    if (!unresolved?.has(key)) yield [RULES.notStuck, 'it is PROCESSING'];
  } else if (!isAnswered && stuckAfterMs !== undefined) {
    yield [RULES.nothingLost, 'a payment whose outcome was never answered, after healing neither'];
  }
}

/** What each answer may be, by what had been acknowledged when its request was sent. */
function* checkExchanges(
  history: KeyHistory,
  payment: KeptPayment | undefined,
  evidence: PaymentEvidence,
): Generator<Finding> {
  let firsts = 0;
  const answeredAt = Math.min(...history.exchanges.flatMap(({ outcome, endedAt }) => (outcome ? endedAt : [])));
  const claimedAt = payment?.claimedAt ? Date.parse(payment.claimedAt) - performance.timeOrigin : undefined;
  for (const exchange of history.exchanges) {
    const { what, status, outcome, sentAt } = exchange;
    const isAfterOutcome = answeredAt < sentAt;
    if (exchange.text !== undefined) yield [RULES.promisedAnswers, `${nameOf(exchange)}: ${exchange.text}`];
    if (exchange.isFirst) {
      firsts += 1;
      if (firsts > 1) yield [RULES.oneOutcome, 'answered as new twice'];
      if (isAfterOutcome) yield [RULES.oneOutcome, `answered as new after its outcome (${nameOf(exchange)})`];
    }
    // Whether there was a reason for these, the checker of refusals asks.
    if (outcome !== undefined || status === 0 || status === 503) continue;
    if (status === (what === 'pay' ? 404 : 400)) yield [RULES.promisedAnswers, nameOf(exchange)];
    // Decisions P17: before every 409 the row is asked.
    if (isAfterOutcome && !isStatusOfDecline(history, exchange)) {
      yield [RULES.nothingLost, `${nameOf(exchange)} after its outcome`];
    } else if (what === 'pay' && status === 409 && !mayBeUnderWay(history, exchange, claimedAt, evidence)) {
      yield [RULES.promisedAnswers, `${nameOf(exchange)} with no other request of the key under way`];
    } else if (what === 'pay' && status === 400) {
      if (wasClaimed(history, exchange, claimedAt)) yield [RULES.nothingLost, `${nameOf(exchange)} after its claim`];
      else if (!wasForgotten(history, exchange, evidence)) {
        yield [RULES.nothingLost, `${nameOf(exchange)} although its key was not forgotten`];
      }
    }
  }
}

/**
 * Another request of this key was at work meanwhile, or an earlier one ended in a way that may have left its lock, for a
 * lease, or its row, which recovery works on at any time.
 */
function mayBeUnderWay(
  { exchanges }: KeyHistory,
  exchange: Exchange,
  claimedAt: number | undefined,
  evidence: PaymentEvidence,
): boolean {
  return exchanges.some((other) => {
    if (other === exchange || other.what !== 'pay' || other.sentAt > exchange.endedAt) return false;
    if (other.endedAt >= exchange.sentAt) return true;
    if (!OPEN_ANSWERS.includes(other.status) || other.failure === 'refused') return false;
    const wasClaimedBefore = claimedAt !== undefined && claimedAt - CLOCK_SLACK_MS <= exchange.endedAt;
    return wasClaimedBefore || exchange.sentAt <= lockedUntil(other, evidence);
  });
}

/** A process or store that stood still meanwhile may take the lock when it goes on. */
function lockedUntil({ to, sentAt, endedAt }: Exchange, { disturbances, leaseMs }: PaymentEvidence): number {
  const ends = disturbances
    .filter((each) => wasDisturbed([each], [to, 'redis', 'postgres', 'processor', 'disk'], sentAt, endedAt))
    .map((each) => each.to);
  return Math.max(endedAt, ...ends) + leaseMs + LEASE_SLACK_MS;
}

function isStatusOfDecline(history: KeyHistory, { what, status }: Exchange): boolean {
  return what === 'status' && status === 404 && history.exchanges.some(({ outcome }) => outcome === DECLINED);
}

/** A payment has its row before it is charged: no key store that forgets makes that go away. */
function wasClaimed({ exchanges }: KeyHistory, { sentAt }: Exchange, claimedAt: number | undefined): boolean {
  if (claimedAt !== undefined && claimedAt + CLOCK_SLACK_MS < sentAt) return true;
  return exchanges.some(({ status, isClaimed, endedAt }) => (status === 504 || isClaimed) && endedAt < sentAt);
}

/** The key was there when the key store forgot; one that forgot only the latest must have forgotten this key's issue. */
function wasForgotten(history: KeyHistory, exchange: Exchange, { disturbances }: PaymentEvidence): boolean {
  return disturbances.some(({ forgets, from, to }) => {
    if (!forgets || from > exchange.endedAt || to < history.issuedAt) return false;
    return forgets === 'everything' || history.receivedAt >= from - REPLICATION_SLACK_MS;
  });
}

function sharedIds(keys: readonly KeyHistory[]): Violation[] {
  const owners = new Map<string, KeyHistory>();
  const violations: Violation[] = [];
  for (const history of keys) {
    const id = history.exchanges.find(({ outcome }) => outcome && outcome !== DECLINED)?.outcome;
    if (id === undefined) continue;
    const owner = owners.get(id);
    if (owner) {
      const what = `${id} was also answered for ${owner.key}`;
      violations.push({ rule: RULES.oneOutcome, subject: history.key, what, history: [history, owner] });
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

type ShownMoney = Pick<ShownPayment, 'amount' | 'currency'>;

function isSameMoney(one: ShownMoney, other: ShownMoney): boolean {
  return one.amount === other.amount && one.currency === other.currency;
}

function nameOf({ what, to, status }: Exchange): string {
  return `${what} at ${to}: ${status}`;
}
