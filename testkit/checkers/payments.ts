import type { ChargeLine } from '#idempay/reference-processor/charge-log.js';
import type { ShownPayment } from '../client/payment-records.js';
import { type Disturbance, wasDisturbed } from '../history/disturbances.js';
import { PROMISED_ANSWERS, type Violation } from '../history/history.js';
import { CANCELLED, DECLINED, type Exchange, isPaid, type KeyHistory } from '../history/payments.js';
import { textOf } from '../protocol/contents.js';

const STATE_OF = { succeeded: 'COMPLETED', declined: 'DECLINED', pending: 'PROCESSING' } as const;
const STATE_OF_OUTCOME: Readonly<Record<string, string>> = { [DECLINED]: 'DECLINED', [CANCELLED]: 'CANCELLED' };
/** The status in the processor's log after this answer; none for a cancelled payment. */
const CHARGE_OF_OUTCOME: Readonly<Record<string, string | undefined>> = {
  [DECLINED]: 'declined',
  [CANCELLED]: undefined,
};
/** The time that a busy machine adds between the end of a lease and our knowledge of it. */
const LEASE_SLACK_MS = 1_000;
/** How far the clock that dates claims may be from ours, on one machine. */
const CLOCK_SLACK_MS = 250;
/** Written so shortly before the master's end, a key may not have reached the replica. */
const REPLICATION_SLACK_MS = 1_000;
/** Answers that leave open whether the payment is under way. */
const OPEN_ANSWERS = [0, 503, 504];

export const PAYMENT_RULES = {
  oneCharge: 'at most one charge per key',
  oneChargePerReference: 'at most one charge per reference that is not declined',
  oneKey: 'one attempt at a reference has one key',
  inTurn: 'an attempt is charged only after the one before it was declined',
  paidMeansCharged: 'every 2xx has exactly one charge',
  oneOutcome: 'every answer of one key names the same id',
  nothingLost: 'nothing acknowledged is missing',
  notStuck: 'no key is stuck longer than a lease and a recovery period',
  chargedMeansCompleted: 'every charge belongs to a COMPLETED payment',
  sameContent: 'a charge, and its payment, have the content of one request that may be the first',
  promisedAnswers: PROMISED_ANSWERS,
} as const;
const RULES = PAYMENT_RULES;

export type KeptPayment = Pick<ShownPayment, 'idempotencyKey' | 'state' | 'amount' | 'currency' | 'transactionId'> &
  Partial<ShownPayment>;

/** All that the checker reads: logs kept outside the system, and what the system shows once it is at rest. */
export interface PaymentEvidence {
  readonly keys: readonly KeyHistory[];
  /** The processor's log of charges; undefined if payments are simulated, because then there is none. */
  readonly charges: readonly ChargeLine[] | undefined;
  readonly kept: readonly KeptPayment[];
  readonly disturbances: readonly Disturbance[];
  readonly leaseMs: number;
  /** Keys whose payments an operator declined, or may have declined: nothing was charged for those. */
  readonly verdicts?: ReadonlySet<string>;
  readonly unresolved?: ReadonlySet<string>;
  /** False if the processor deduplicates nothing. Then a cancellation may be refused, because a charge that has not come cannot be ended. */
  readonly deduplicates?: boolean;
  /** A key without an outcome this long after healing is stuck. Omitted if the clients did not wait for all outcomes. */
  readonly stuckAfterMs?: number;
}

type Finding = readonly [rule: string, what: string];

interface Subject {
  readonly history: KeyHistory;
  readonly charge: ChargeLine | undefined;
  readonly payment: KeptPayment | undefined;
  /** By the clients' clock. */
  readonly claimedAt: number | undefined;
  readonly evidence: PaymentEvidence;
}

/** Compares the clients' history, the processor's log, and what the service shows. */
export function checkPayments(evidence: PaymentEvidence): Violation[] {
  const histories = groupBy(evidence.keys, ({ key, order }) => key || JSON.stringify(order));
  const charges = groupBy(evidence.charges ?? [], ({ reference }) => reference);
  const kept = groupBy(evidence.kept, ({ idempotencyKey }) => idempotencyKey);
  const ownerOf = new Map<string, string>();
  const closed = attemptsThatMayBeClosed(evidence.keys);
  const ofKeys = [...new Set([...histories.keys(), ...charges.keys(), ...kept.keys()])].flatMap((subject) => {
    const own = [histories, charges, kept].map((groups) => groups.get(subject) ?? []);
    const [[history], ownCharges, ownKept] = own as [KeyHistory[], ChargeLine[], KeptPayment[]];
    if (!history && ownCharges.length === 0 && ownKept.every((payment) => isClosed(payment, closed))) return [];
    const findings = [...checkKey(history, ownCharges, ownKept, evidence), ...checkOwner(history, ownerOf)];
    return findings.map(([rule, what]) => ({ rule, subject, what, history: [history, ...ownCharges, ...ownKept] }));
  });
  return [...ofKeys, ...checkReferences(evidence, charges, kept)];
}

/** A cancellation that ends the newest attempt at an order closes the one after it, which no request names (rule P25). */
function attemptsThatMayBeClosed(keys: readonly KeyHistory[]): Set<string> {
  const orders = groupBy(keys, ({ order }) => order?.reference ?? '');
  orders.delete('');
  const cancelled = [...orders].filter(([, attempts]) =>
    attempts.some(({ exchanges }) => exchanges.some(({ what }) => what === 'cancel')),
  );
  return new Set(
    cancelled.map(([reference, attempts]) =>
      JSON.stringify([reference, Math.max(...attempts.map(({ order }) => order?.attempt ?? 0)) + 1]),
    ),
  );
}

function isClosed({ state, reference, attempt }: KeptPayment, closed: ReadonlySet<string>): boolean {
  return state === 'CANCELLED' && closed.has(JSON.stringify([reference, attempt]));
}

/** One reference, one charge that is not declined. */
function checkReferences(
  { keys }: PaymentEvidence,
  charges: ReadonlyMap<string, readonly ChargeLine[]>,
  kept: ReadonlyMap<string, readonly KeptPayment[]>,
): Violation[] {
  const references = groupBy(
    keys.filter(({ order }) => order),
    ({ order }) => order?.reference ?? '',
  );
  return [...references].flatMap(([subject, attempts]) => {
    const keyOf = new Map(attempts.map(({ key, order }) => [order?.attempt ?? 0, key]));
    const lines = attempts.flatMap(({ key }) => charges.get(key) ?? []);
    const charged = lines.filter(({ status }) => status === 'succeeded');
    const early = attempts.filter(({ key, order }) => {
      const before = kept.get(keyOf.get((order?.attempt ?? 1) - 1) ?? '')?.[0];
      return order?.attempt !== 1 && charges.has(key) && before?.state !== 'DECLINED';
    });
    const findings: Finding[] = [];
    if (charged.length > 1) findings.push([RULES.oneChargePerReference, `${charged.length} charges`]);
    for (const { order } of early) findings.push([RULES.inTurn, `attempt ${order?.attempt} was charged`]);
    return findings.map(([rule, what]) => ({ rule, subject, what, history: [...attempts, ...lines] }));
  });
}

function* checkKey(
  history: KeyHistory | undefined,
  charges: readonly ChargeLine[],
  kept: readonly KeptPayment[],
  evidence: PaymentEvidence,
): Generator<Finding> {
  if (charges.length > 1) yield [RULES.oneCharge, `${charges.length} charges`];
  if (kept.length > 1) yield [RULES.oneOutcome, `the service shows ${kept.length} payments of it`];
  if (!history) return yield [RULES.promisedAnswers, 'a charge or payment with a key that was issued to nobody'];
  const [payment] = kept;
  const claimedAt = payment?.claimedAt ? Date.parse(payment.claimedAt) - performance.timeOrigin : undefined;
  const subject: Subject = { history, charge: charges[0], payment, claimedAt, evidence };
  const outcomes = new Set(history.exchanges.flatMap(({ outcome }) => outcomeIn(outcome, payment) ?? []));
  if (outcomes.size > 1) yield [RULES.oneOutcome, [...outcomes].join(', ')];
  const keys = new Set(history.exchanges.flatMap((exchange) => exchange.key ?? []));
  if (history.order && keys.size > 1) yield [RULES.oneKey, [...keys].join(', ')];
  yield* checkCharge(subject);
  yield* checkContent(charges, subject);
  for (const outcome of outcomes) yield* checkOutcome(outcome, subject);
  yield* checkKept(subject, outcomes.size > 0);
  yield* checkExchanges(subject);
}

/** A payment that a cancellation ended is DECLINED: the cancellation is told that it is cancelled, and the payer that it was declined. */
function outcomeIn(outcome: string | undefined, payment: KeptPayment | undefined): string | undefined {
  return outcome === CANCELLED && isEnded(payment) ? DECLINED : outcome;
}

const isEnded = (payment: KeptPayment | undefined) => payment?.state === 'DECLINED' && payment.ending !== undefined;

function* checkCharge({ history, charge, payment, evidence: { unresolved } }: Subject): Generator<Finding> {
  if (!charge) return;
  const { chargedMeansCompleted } = RULES;
  const isLeft = payment?.state === 'PROCESSING' && unresolved?.has(history.key);
  if (payment?.state !== STATE_OF[charge.status] && !isLeft) {
    yield [chargedMeansCompleted, `charge ${charge.status}, payment ${payment?.state ?? 'missing'}`];
  }
  if (payment && payment.transactionId !== charge.transactionId) {
    yield [chargedMeansCompleted, `charged as ${charge.transactionId}, kept as ${payment.transactionId}`];
  }
  if (!isSameMoney(charge, history)) yield [chargedMeansCompleted, 'charged another amount than was asked'];
  const reason = charge.status === 'declined' ? charge.reason : null;
  if (payment?.reason !== undefined && payment.reason !== reason && !isLeft) {
    yield [chargedMeansCompleted, `kept reason ${payment.reason}, the processor gave ${reason}`];
  }
}

/** Each charge of the key, and what is shown of it, has what one request said (rule P19). */
function* checkContent(charges: readonly ChargeLine[], { history, payment }: Subject): Generator<Finding> {
  const { contents = new Set([textOf()]), order } = history;
  // An ending that came before its charge names no content.
  const sentCharges = charges.filter((charge) => !('isEnded' in charge));
  const texts = new Set(sentCharges.map(textOf));
  const other = [...texts].find((text) => !contents.has(text));
  if (other !== undefined) yield [RULES.sameContent, `charged with ${other}`];
  if (texts.size > 1) yield [RULES.sameContent, `charged with ${texts.size} contents`];
  for (const charge of sentCharges) {
    if (charge.order !== order?.reference) yield [RULES.sameContent, `charged for the order ${charge.order}`];
  }
  if (!payment || payment.state === 'CANCELLED' || payment.state === 'PENDING') return;
  const shown = textOf({ ...payment, source: null });
  const sent = [...(texts.size > 0 ? texts : contents)];
  if (sent.every((text) => withoutSource(text) !== shown)) yield [RULES.sameContent, `kept with ${shown}`];
}

const withoutSource = (text: string) => JSON.stringify(JSON.parse(text).with(0, null));

function* checkOutcome(outcome: string, { history, charge, payment, evidence }: Subject): Generator<Finding> {
  const isVerdict = !charge && outcome === DECLINED && evidence.verdicts?.has(history.key);
  const isSimulated = !evidence.charges || payment?.processor === 'simulated';
  // Nothing was sent for it, so the processor has no charge.
  const isEndedUnsent = !charge && outcome === DECLINED && isEnded(payment);
  if (!isVerdict && !isSimulated && !isEndedUnsent && charge?.status !== chargeOf(outcome)) {
    yield [RULES.paidMeansCharged, `answered ${outcome}, charge ${charge?.status ?? 'missing'}`];
  }
  if (payment?.state !== (STATE_OF_OUTCOME[outcome] ?? 'COMPLETED')) {
    yield [RULES.nothingLost, `answered ${outcome}, payment ${payment?.state ?? 'missing'}`];
  }
  const id = charge?.transactionId ?? payment?.transactionId;
  if (isPaid(outcome) && id && id !== outcome)
    yield [RULES.oneOutcome, `answered ${outcome}, charged or kept as ${id}`];
}

const chargeOf = (outcome: string) => (isPaid(outcome) ? 'succeeded' : CHARGE_OF_OUTCOME[outcome]);

function* checkKept({ history, payment, evidence }: Subject, isAnswered: boolean): Generator<Finding> {
  const { key, finishedAfterMs } = history;
  const { unresolved, verdicts, stuckAfterMs = Number.POSITIVE_INFINITY } = evidence;
  const isAwaited = evidence.stuckAfterMs !== undefined;
  if (isAwaited && finishedAfterMs === undefined) yield [RULES.notStuck, 'it has no outcome'];
  if (finishedAfterMs !== undefined && finishedAfterMs > stuckAfterMs) {
    yield [RULES.notStuck, `its outcome came ${Math.round(finishedAfterMs)} ms after healing`];
  }
  if (!payment || payment.state === 'PENDING') return;
  if (payment.state !== 'CANCELLED' && !isSameMoney(payment, history))
    yield [RULES.chargedMeansCompleted, 'kept with another amount than was asked'];
  if (payment.resolution && !verdicts?.has(key)) yield [RULES.oneOutcome, `resolved by nobody: ${payment.resolution}`];
  if (payment.state === 'PROCESSING') {
    if (!unresolved?.has(key)) yield [RULES.notStuck, 'it is PROCESSING'];
  } else if (!isAnswered && isAwaited) {
    yield [RULES.nothingLost, 'a payment whose outcome was never answered, after healing neither'];
  }
}

/** Checks each answer against what was acknowledged before its request was sent. */
function* checkExchanges(subject: Subject): Generator<Finding> {
  const { exchanges } = subject.history;
  const answeredAt = Math.min(...exchanges.flatMap(({ outcome, endedAt }) => (outcome ? endedAt : [])));
  if (exchanges.filter(({ isFirst }) => isFirst).length > 1) yield [RULES.oneOutcome, 'answered as new twice'];
  for (const exchange of exchanges) {
    const { status, outcome, isFirst, isNotEnded, text } = exchange;
    const name = nameOf(exchange);
    const isAfterOutcome = answeredAt < exchange.sentAt;
    if (isNotEnded && subject.evidence.deduplicates !== false) yield [RULES.promisedAnswers, `${name}: not ended`];
    if (text !== undefined) yield [RULES.promisedAnswers, `${name}: ${text}`];
    if (isFirst && isAfterOutcome) yield [RULES.oneOutcome, `answered as new after its outcome (${name})`];
    // The checker of refusals decides whether these had a reason.
    const isOpen = outcome === undefined && status !== 0 && status !== 503;
    if (isOpen) yield* checkRefusal(exchange, subject, isAfterOutcome);
  }
}

const nameOf = ({ what, to, status }: Exchange) => `${what} at ${to}: ${status}`;

const NEVER_ANSWERED: Readonly<Record<Exchange['what'], readonly number[]>> = {
  pay: [404],
  status: [400],
  cancel: [400, 404],
};

/** Checks an answer that names no outcome. */
function* checkRefusal(exchange: Exchange, subject: Subject, isAfterOutcome: boolean): Generator<Finding> {
  const { what, status } = exchange;
  const { exchanges } = subject.history;
  const name = nameOf(exchange);
  if (NEVER_ANSWERED[what].includes(status)) yield [RULES.promisedAnswers, name];
  // The status of a decline is 404 too. Rule P17: before every 409 the row is asked.
  const isUnpaid = (each: Exchange) => each.outcome !== undefined && !isPaid(each.outcome);
  const isDecline = what === 'status' && status === 404 && exchanges.some(isUnpaid);
  if (isAfterOutcome && !isDecline) yield [RULES.nothingLost, `${name} after its outcome`];
  else if (what !== 'status' && status === 409 && !mayBeUnderWay(exchange, subject)) {
    yield [RULES.promisedAnswers, `${name} with no other request of the key under way`];
  } else if (what === 'pay' && status === 400) yield* checkInvalidKey(exchange, subject);
}

function* checkInvalidKey(exchange: Exchange, subject: Subject): Generator<Finding> {
  if (wasClaimed(exchange, subject)) yield [RULES.nothingLost, `${nameOf(exchange)} after its claim`];
  else if (!wasForgotten(exchange, subject)) {
    yield [RULES.nothingLost, `${nameOf(exchange)} although its key was not forgotten`];
  }
}

/**
 * Another request of this key was at work meanwhile, or an earlier one may have left its lock, for a lease, or its row, which recovery
 * works on at any time.
 */
function mayBeUnderWay(exchange: Exchange, { history, claimedAt = Number.POSITIVE_INFINITY, evidence }: Subject) {
  return history.exchanges.some((other) => {
    if (other === exchange || other.what === 'status' || other.sentAt > exchange.endedAt) return false;
    if (other.endedAt >= exchange.sentAt) return true;
    if (!OPEN_ANSWERS.includes(other.status) || other.failure === 'refused') return false;
    return claimedAt - CLOCK_SLACK_MS <= exchange.endedAt || exchange.sentAt <= lockedUntil(other, evidence);
  });
}

/** A process or store that was stopped meanwhile may take the lock after it resumes. */
function lockedUntil({ to, sentAt, endedAt }: Exchange, { disturbances, leaseMs }: PaymentEvidence): number {
  const ends = disturbances
    .filter((each) => wasDisturbed([each], [to, 'redis', 'postgres', 'processor', 'disk'], sentAt, endedAt))
    .map((each) => each.to);
  return Math.max(endedAt, ...ends) + leaseMs + LEASE_SLACK_MS;
}

/** A payment's row is written before its charge, and a key store that loses data does not remove it. */
function wasClaimed({ sentAt }: Exchange, { history, claimedAt = Number.POSITIVE_INFINITY }: Subject): boolean {
  const isClaim = ({ status, isClaimed, endedAt }: Exchange) => (status === 504 || isClaimed) && endedAt < sentAt;
  return claimedAt + CLOCK_SLACK_MS < sentAt || history.exchanges.some(isClaim);
}

/** The key existed when the key store lost data; if it lost only the latest writes, the issue of this key must be among them. */
function wasForgotten({ endedAt }: Exchange, { history, evidence }: Subject): boolean {
  return evidence.disturbances.some(({ forgets, from, to }) => {
    if (!forgets || from > endedAt || to < history.issuedAt) return false;
    return forgets === 'everything' || history.receivedAt >= from - REPLICATION_SLACK_MS;
  });
}

function* checkOwner(history: KeyHistory | undefined, ownerOf: Map<string, string>): Generator<Finding> {
  const id = history?.exchanges.find(({ outcome }) => outcome && isPaid(outcome))?.outcome;
  if (!history || id === undefined) return;
  const owner = ownerOf.get(id);
  if (owner !== undefined) yield [RULES.oneOutcome, `${id} was also answered for ${owner}`];
  ownerOf.set(id, history.key);
}

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
}

type ShownMoney = Pick<ShownPayment, 'amount' | 'currency'>;

function isSameMoney(one: ShownMoney, other: ShownMoney): boolean {
  return one.amount === other.amount && one.currency === other.currency;
}
