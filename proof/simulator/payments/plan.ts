import { type Random, seededRandom } from '../../../testkit/random.js';
import { endpointSubject, type Fault, type FaultKind, someMs } from '../faults.js';
import { networkFault } from '../network.js';
import { SHOPS } from './keys.js';
import { type ProcessorBehaviour, type Waits, WELL } from './processor.js';
import { KEEPS_ALL, type PlannedEndpoint, type ReceiverBehaviour } from './receivers.js';

export type PaymentPlan = ReturnType<typeof planPayments>;
export type KeyScript = Omit<PaymentPlan['scripts'][number], 'order' | 'cancelAfterMs' | 'refunds'> &
  Partial<Pick<PaymentPlan['scripts'][number], 'order' | 'cancelAfterMs' | 'refunds'>>;
export type PlannedRefund = NonNullable<KeyScript['refunds']>[number];
export type PlannedOrder = NonNullable<KeyScript['order']>[number];
export type PlannedRequest = KeyScript['requests'][number];

/** Faults come within this time; what follows is quiet. */
export const FAULTS_END_MS = 60_000;

export const AMOUNTS = ['1.00', '20.50', '300.00', '4000.99'];
/** The kinds of requests after the first one; a kind that is listed more often is chosen more often. */
const REQUEST_KINDS = [
  'pay nonsense',
  'ask for the outcome',
  'ask for the outcome',
  ...Array<'pay'>(9).fill('pay'),
] as const;
/** How many operations a payment without faults takes: begin, claim, charge, finish, settle, and the operations of its twin. */
const OPERATIONS_OF_A_KEY = 24;
/** How many of them it takes until the payment is claimed and charged. */
const FIRST_OPERATIONS = 6;
/** If every key has a triggered fault, a process must soon be there again. */
const RESTART_MS = 1_500;
/** One in this number of scripts pays an order by its reference; one in this number of payments is to be cancelled. */
const ORDERS = 3;
const CANCELLATIONS = 6;
const WAITS_SEED = 1_000_003;
const REFUNDS_SEED = 2_000_003;
const REFUND_NAMES = ['a', 'b', 'c'];
const LONG_LEASE_MS = 10_000;
/** One in this number of plans is about events between two steps. */
const MANY_TRIGGERED = 3;
const RETENTION_PLANS = 20;
/** One in this many plans has a processor without any effect outside the process. */
const CERTAIN_PLANS = 4;
/** One in this many plans, none of which is certain, loses rows by a restore. */
const LOSING_PLANS = 4;
/** One in this many plans has charges that wait for their payers. */
const WAITING_PLANS = 3;
/** One in this many plans has a reader of the feed of settlements, and another one in this many has webhooks as well. */
const READ_PLANS = 4;
const TOLD_PLANS = 3;
const TOLD_SEED = 3_000_003;
/** The eager reader of the feed pauses for at most this long between two pages. */
const EAGER_MS = 1_500;
/** The clock of a server that takes over is so far behind: less than the clocks of two servers may differ. */
const BEHIND_MS = 4_000;
const HOUR_MS = 3_600_000;
const LONGEST_MS = 40_000;

export function planPayments(seed: number) {
  const random = seededRandom(seed);
  const certain = seed % CERTAIN_PLANS === 1 ? CERTAIN : { isCertain: false };
  const usual = { ...shapeOf(random), ...certain, ...(seed % LOSING_PLANS === 3 && losing(random.fork())) };
  const told = seededRandom(seed + TOLD_SEED);
  const isTold = seed % TOLD_PLANS === 1;
  const isRead = isTold || seed % READ_PLANS === 0;
  const shape = {
    ...{ ...usual, waits: waitsOf(seed, usual) },
    ...{ readers: isRead ? readersOf(told, isTold) : [], endpoints: isTold ? endpointsOf(told) : [] },
  };
  const scripts = Array.from({ length: 20 + random.below(80) }, (_, number) => {
    const script = scriptOf(number, random.fork(), shape);
    return { ...script, refunds: refundsOf(seed, script, shape) };
  });
  const triggered = random.below(MANY_TRIGGERED) === 0 ? scripts.length : random.below(8);
  const faults = [
    ...Array.from({ length: random.below(16) }, () => timedFault(random.fork(), shape, scripts.length)),
    ...Array.from({ length: triggered }, () => triggeredFault(random.fork(), shape, scripts.length)),
  ];
  if (shape.loss) faults.push(...faultsWithLoss(random.fork(), { ...shape, isTold }, scripts.length));
  if (isTold) faults.push(...faultsOfWebhooks(told, shape));
  const happening = faults.filter((fault) => fault !== undefined);
  return { seed, shape, scripts, faults: happening.filter(({ kind }) => !shape.loss || kind !== 'clock') };
}

/** The charges that wait are drawn from an RNG of their own, so that plans without them stay the same. */
function waitsOf(
  seed: number,
  { isCertain, loss, retentionMs }: Omit<Shape, 'waits'> & { isCertain: boolean; loss?: object },
) {
  if (seed % WAITING_PLANS !== 2 || isCertain || retentionMs !== undefined) return undefined;
  const random = seededRandom(seed + WAITS_SEED);
  const waits: Waits = {
    chance: random.pick([0.3, 1]),
    longestMs: random.pick([2_000, 20_000, 40_000]),
    forgets: random.pick([0, 0.1]),
    cannotEnd: random.pick([0, 0.2]),
    otherContract: random.pick([0, 0, 0.3]),
  };
  // Only the processor's memory tells of a row that was lost. Without charges that wait, more of them are refunded before the loss.
  return loss ? { ...waits, forgets: 0, chance: random.pick([0, 0.3, 1]) } : waits;
}

/** Parts that are given back after the payment, drawn from an RNG of their own. Without charges that wait, an adapter knows no refunds. */
function refundsOf(
  seed: number,
  { number, amount }: { number: number; amount: string },
  { waits, isCertain, instances }: Pick<Shape, 'instances'> & { waits: object | undefined; isCertain: boolean },
) {
  const random = seededRandom(REFUNDS_SEED + seed * 1_000 + number);
  if ((!waits && !isCertain) || random.below(2) === 0) return [];
  return Array.from({ length: 1 + random.below(6) }, () => ({
    name: random.pick(REFUND_NAMES),
    amount: random.pick(['0.50', '0.50', '1.00', '20.50', amount]),
    afterMs: random.pick([random.below(10), random.below(10), random.below(5_000), random.below(30_000)]),
    instance: random.below(instances),
    repeats: random.below(4),
  }));
}

export type PlannedReader = ReturnType<typeof readersOf>[number];

/** One that follows closely, and one that reads seldom, or only what one client has. */
function readersOf(random: Random, isTold: boolean) {
  const eager = { client: undefined, kind: undefined, longestPauseMs: EAGER_MS };
  const other = {
    client: random.pick(SHOPS),
    kind: random.pick([undefined, undefined, 'payment', 'refund'] as const),
    longestPauseMs: random.pick([EAGER_MS, 20_000, 2 * HOUR_MS]),
  };
  return isTold ? [eager, other] : [eager];
}

/** Receivers of all settlements, and of one client's. */
function endpointsOf(random: Random): readonly PlannedEndpoint[] {
  return Array.from({ length: 1 + random.below(3) }, (_, index) => ({
    name: `e${index}`,
    client: random.pick([undefined, ...SHOPS]),
    refuses: random.pick([0, 0, 0.2]),
  }));
}

/** Bad times of receivers, faults at steps of whoever serves an endpoint, and a database clock that goes back. */
function faultsOfWebhooks(
  random: Random,
  { deployment, endpoints, loss }: Pick<Shape, 'deployment'> & { endpoints: readonly object[]; loss?: object },
): Fault[] {
  const of = () => random.below(endpoints.length);
  const at = () => random.fraction() * FAULTS_END_MS;
  const steps: (() => FaultKind)[] = [
    () => ({ kind: 'crash', target: 'caller', forMs: random.below(RESTART_MS) }),
    () => ({ kind: 'crash', target: 'caller', forMs: someMs(random, LONGEST_MS) }),
    () => ({ kind: 'pause', target: 'caller', forMs: random.below(25_000), wakesInOrder: random.below(2) === 0 }),
    () => ({ kind: 'drain', target: 'caller', forMs: random.below(RESTART_MS) }),
  ];
  const lost: (() => FaultKind)[] = [() => ({ kind: 'cut' }), () => ({ kind: 'delay', forMs: random.below(15_000) })];
  const step = (): Fault => ({
    ...{
      subject: endpointSubject(of()),
      operation: { notBefore: at() },
      point: random.pick(['sent', 'done'] as const),
    },
    ...{ only: random.pick(['take', 'advance', 'advance', 'set', undefined]) },
    ...random.pick(deployment === 'embedded' ? steps : [...steps, ...lost])(),
  });
  const bad = (): Fault => {
    const forMs = someMs(random, LONGEST_MS);
    return { at: at(), kind: 'receiver', of: of(), behaviour: badReceiver(random), forMs };
  };
  const goesBack = deployment === 'distributed' && !loss && random.below(3) === 0;
  const aheadMs = -500 - random.below(90_000);
  return [
    ...Array.from({ length: 1 + random.below(6) }, bad),
    ...Array.from({ length: random.below(5) }, step),
    ...(goesBack ? [{ at: at(), kind: 'clock', of: 'postgres', aheadMs } as const] : []),
  ];
}

function badReceiver(random: Random): ReceiverBehaviour {
  const some = () => random.pick([0, 0, 0.3, 1]);
  return {
    ...KEEPS_ALL,
    fails: some(),
    hangs: some(),
    late: some(),
    losesReply: some(),
    gone: random.pick([0, 0, 0.1]),
  };
}

/** The settings for lost rows: only the processor's memory then tells of a payment. */
function losing(random: Random) {
  return {
    forgetful: false,
    retentionMs: undefined,
    dedupMs: random.pick([0, 3_000, 3_000, 20_000, 72_000_000]),
    eagerOperator: random.below(8) > 0,
    loss: {
      /** True if the processor's look-ups name the content that was charged. */
      tellsAmounts: random.below(3) > 0,
    },
  };
}

/**
 * A restore, and before it charges that do not arrive, so that an operator declines some attempts and the next ones are charged. While it
 * happens, charges are on their way.
 */
function faultsWithLoss(
  random: Random,
  { deployment, isTold }: Shape & { readonly isTold: boolean },
  scripts: number,
): Fault[] {
  const ends = deployment === 'embedded' || random.below(2) === 0;
  const forMs = (0.1 + random.fraction() * 0.4) * FAULTS_END_MS;
  const at = (0.05 + random.fraction() * 0.2) * FAULTS_END_MS;
  const when = random.below(4) === 0 ? triggeredAt(random, scripts) : { at };
  const losing = { ...WELL, declines: 0.2, lostRequest: random.pick([0.3, 0.7]) };
  const late = { ...WELL, late: 0.8, latencyMs: 1_000 };
  return [
    { ...when, kind: 'restore', forMs, ends, ...(isTold && deployment === 'distributed' && { behindMs: BEHIND_MS }) },
    { at: random.below(5_000), kind: 'processor', behaviour: losing, forMs: 5_000 + random.below(10_000) },
    { at: at + forMs - 2_000, kind: 'processor', behaviour: late, forMs: 4_000 },
  ];
}

const triggeredAt = (random: Random, scripts: number) =>
  ({
    subject: random.below(scripts),
    operation: 1 + random.below(2 * FIRST_OPERATIONS),
    point: random.pick(['sent', 'done'] as const),
  }) as const;

/** The product's own processor, which answers at once: payments are claimed and settled in one commit. */
const CERTAIN = { isCertain: true, dedupMs: Number.POSITIVE_INFINITY, processorTimeoutMs: 0 };

type Shape = ReturnType<typeof shapeOf>;

function shapeOf(random: Random) {
  const deployment = random.below(4) === 0 ? 'embedded' : 'distributed';
  const leaseMs = random.pick([3_000, 3_000, 8_000, 30_000]);
  return {
    deployment,
    instances: deployment === 'embedded' ? 1 : 2 + random.below(2),
    leaseMs,
    idempotencyTtlMs: random.pick([4_000, 20_000, 3_600_000, 3_600_000]),
    processorTimeoutMs: random.pick([500, 2_500]),
    /** 0: the processor deduplicates nothing, and the service knows. */
    dedupMs: random.pick([0, 20_000, 72_000_000, 72_000_000]),
    /** True if the processor no longer knows a reference when its promise has ended. */
    forgetful: random.below(2) === 0,
    payloadMismatch: random.pick(['replay', 'reject'] as const),
    /** True if an operator is at work all the time, not only when the faults are over. */
    eagerOperator: random.below(2) === 0,
    maxInFlight: random.pick([2, 8, 10_000, 10_000]),
    /** If undefined, payments are kept for ever. Otherwise the history lasts hours, in which processes mostly stand still. */
    retentionMs: random.below(RETENTION_PLANS) === 0 ? random.pick([HOUR_MS, 2 * HOUR_MS]) : undefined,
  } as const;
}

/** The requests of one client with one key, which `number` names: it keeps its name when other scripts are left out. */
function scriptOf(number: number, random: Random, { instances, loss }: Shape & { readonly loss?: object }) {
  const requests = Array.from({ length: 1 + random.below(5) }, (_, index) => ({
    number: index,
    kind: index === 0 ? 'pay' : random.pick(REQUEST_KINDS),
    // After the key was issued: the first two often at the same moment, others while the first is under way, or long after.
    afterMs: index < 2 ? random.below(10) : random.pick([random.below(200), random.below(5_000), random.below(50_000)]),
    instance: random.below(instances),
    /** Instead of the script's: what is charged must not depend on it. */
    otherAmount: random.below(8) === 0 ? random.pick(AMOUNTS) : undefined,
    patienceMs: random.below(3) === 0 ? random.pick([1_000, 10_000, 30_000]) : 0,
    repeats: loss ? 2 * random.below(4) : random.below(4),
  }));
  return {
    number,
    at: random.fraction() * FAULTS_END_MS * (loss ? 0.5 : 0.9),
    instance: random.below(instances),
    amount: random.pick(AMOUNTS),
    requests,
    /** True if it asks again when the faults are over; else only recovery can finish the payment. */
    asksAgain: random.below(2) === 0,
    ...byReference(random, requests.length, loss !== undefined),
  };
}

/** Drawn after everything else, so that scripts with keys are what they were before there were references. */
function byReference(random: Random, requests: number, isLosing: boolean) {
  const order = Array.from({ length: requests }, () => ({
    form: random.pick(['one request', 'two requests'] as const),
    /** Mostly the first; the second one is rarely permitted. */
    attempt: random.below(8) === 0 ? 2 : 1,
    /** How often its payer tries again after a decline, each time with the next attempt. */
    triesAgain: random.pick(isLosing ? [1, 3] : [0, 0, 1, 3]),
  }));
  return {
    /** How each request pays an order by its reference. Undefined if the script has a key of its own. */
    order: random.below(ORDERS) < (isLosing ? 2 : 1) ? order : undefined,
    /** It is cancelled this long after the first request. Undefined if nobody cancels it. */
    cancelAfterMs: random.below(CANCELLATIONS) === 0 ? someMs(random, LONGEST_MS) : undefined,
  };
}

/** Undefined for a fault that the deployment does not have. A fault that is listed twice is twice as likely. */
function timedFault(random: Random, { deployment, instances }: Shape, scripts: number): Fault | undefined {
  const embedded = deployment === 'embedded';
  const at = random.fraction() * FAULTS_END_MS;
  const forMs = someMs(random, LONGEST_MS);
  const target = random.below(instances);
  const crash = () => ({ kind: 'crash', target, forMs }) as const;
  const network = () => networkFault(random, target, embedded, true, forMs);
  const processor = () => ({ kind: 'processor', behaviour: badBehaviour(random), forMs }) as const;
  const fault = random.pick<() => FaultKind | undefined>([
    crash,
    crash,
    () => ({ kind: 'pause', target, forMs, wakesInOrder: random.below(2) === 0 }),
    () => (embedded ? undefined : { kind: 'flush' }),
    () => (embedded ? undefined : { kind: 'failover', forMs: random.below(3_000) }),
    network,
    network,
    processor,
    processor,
    () => ({ kind: 'operator', of: random.below(scripts) }),
    () => ({ kind: 'drain', target, forMs: random.below(RESTART_MS) }),
    () => {
      const aheadMs = (random.fraction() - 0.5) * random.pick([2_000, 120_000]);
      return { kind: 'clock', of: embedded ? 'postgres' : random.pick([target, 'redis', 'postgres']), aheadMs };
    },
  ])();
  return fault && { at, ...fault };
}

function triggeredFault(random: Random, { deployment, leaseMs }: Shape, scripts: number): Fault {
  const subject = random.below(scripts);
  const operation = 1 + random.below(random.below(2) === 0 ? FIRST_OPERATIONS : OPERATIONS_OF_A_KEY);
  const point = random.pick(['sent', 'done'] as const);
  // Often a little more than a lease, so that another process is at work when its owner comes back.
  const forMs = random.below(3) === 0 ? leaseMs + random.below(4_000) : random.below(5_000);
  // While a process is stopped for long little happens, so a long lease is hardly ever outlived.
  const pausedMs = leaseMs > LONG_LEASE_MS ? Math.min(forMs, 5_000) : forMs;
  const target = 'caller';
  const end = (kind: 'crash' | 'drain') => (): FaultKind => ({ kind, target, forMs: random.below(RESTART_MS) });
  const pause = (): FaultKind => ({ kind: 'pause', target, forMs: pausedMs, wakesInOrder: random.below(2) === 0 });
  const cut = () => ({ kind: 'cut' }) as const;
  const delay = () => ({ kind: 'delay', forMs }) as const;
  const everywhere = [end('crash'), end('crash'), pause, pause, end('drain')];
  const distributed: (() => FaultKind)[] = [
    ...[...everywhere, cut, cut, delay, delay],
    () => ({ kind: 'flush' }),
    () => ({ kind: 'evict', of: subject, what: random.pick(['record', 'lock']) }),
  ];
  const fault = random.pick(deployment === 'embedded' ? everywhere : distributed)();
  return { subject, operation, point, ...fault };
}

function badBehaviour(random: Random): ProcessorBehaviour {
  const some = () => random.pick([0, 0, 0.3, 1]);
  return {
    ...{ latencyMs: random.pick([50, 1_000, 20_000]), declines: random.pick([0, 0.3]), fails: some() },
    ...{ lostRequest: some(), lostReply: some(), late: random.pick([0, 0.5]) },
    ...{ down: random.below(5) === 0, refuses: some() },
  };
}
