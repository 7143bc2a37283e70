import { STATEMENT_TIMEOUT_MS, WRITE_DEADLINE_MS } from '#idempay/stores/shared/time-limits.js';
import { TRANSACTION_STATUSES } from '#idempay/transactions/transaction.js';
import { type Random, seededRandom } from '../../../testkit/random.js';
import { type Fault, type FaultKind, someMs } from '../faults.js';
import { GOOD, networkFault } from '../network.js';

export type TransactionPlan = ReturnType<typeof planTransactions>;
export type ClientScript = TransactionPlan['scripts'][number];
export type Action = ClientScript['actions'][number];

export const FAULTS_END_MS = 30_000;
/** As the adapter has it. */
const MARK_TTL_MS = WRITE_DEADLINE_MS + STATEMENT_TIMEOUT_MS + 2_000;
const LONGEST_MS = 20_000;
/** Until a write that was late in the last moment is done, and its mark gone. */
const WATCHED_LONGER_MS = 15_000;

/** Faults that remove a write's mark while the write is under way, or let it be judged by a wrong clock. */
export function mayLoseMarks(fault: FaultKind): boolean {
  if (fault.kind === 'clock') return typeof fault.of === 'string';
  return fault.kind === 'flush' || fault.kind === 'evict' || fault.kind === 'failover';
}

/** With longer restarts most requests of clients would find no process. */
const LONGEST_RESTART_MS = 2_000;

export function planTransactions(seed: number) {
  const random = seededRandom(seed);
  const shape = shapeOf(random);
  const clients = Array.from({ length: 8 + random.below(40) }, (_, number) => scriptOf(number, random.fork(), shape));
  const scripts = [...clients, watcherOf(clients.length, random.fork(), shape)];
  // Half of the histories keep every mark: only in these a client must never see an older version after a newer one.
  const keepsMarks = random.below(2) === 0;
  const faults = [
    ...Array.from({ length: random.below(12) }, () => timedFault(random.fork(), shape)),
    ...Array.from({ length: random.pick([2, 6, 16]) }, () => triggeredFault(random.fork(), shape)),
  ];
  return { seed, shape, scripts, faults: faults.filter((fault) => !keepsMarks || !mayLoseMarks(fault)) };
}

type Shape = ReturnType<typeof shapeOf>;

function shapeOf(random: Random) {
  const deployment = random.below(4) === 0 ? 'embedded' : 'distributed';
  return {
    deployment,
    instances: deployment === 'embedded' ? 1 : 2 + random.below(2),
    /** Transactions that are there from the beginning, and that most clients are interested in. */
    hot: 1 + random.below(6),
    transactionCacheTtlMs: random.pick([300, 300_000, 300_000]),
    /** How often a statement takes long to commit, also when nothing is wrong. */
    slowCommits: random.pick([0, 0, 0.2]),
    /** Status changes in a hundred actions. */
    changes: random.pick([4, 12, 26]),
  } as const;
}

function scriptOf(number: number, random: Random, shape: Shape) {
  const hurry = random.pick([40, 400, 3_000]);
  let at = random.fraction() * FAULTS_END_MS * 0.7;
  const actions = Array.from({ length: 4 + random.below(16) }, () => {
    at += random.below(hurry);
    return actionOf(random, shape, at);
  });
  return { number, actions };
}

/** A client that only reads, during all faults and a little longer, so that a wrong cache entry is seen before it is replaced. */
function watcherOf(number: number, random: Random, shape: Shape): ReturnType<typeof scriptOf> {
  const actions: ReturnType<typeof actionOf>[] = [];
  for (let at = 0; at < FAULTS_END_MS + WATCHED_LONGER_MS; at += random.below(500)) {
    actions.push({ ...actionOf(random, shape, at), kind: 'get', target: random.below(shape.hot) });
  }
  return { number, actions };
}

/** `at`: or when the answer before has come, if that is later. */
function actionOf(random: Random, { instances, hot, changes }: Shape, at: number) {
  const kind = kindOf(random.below(100), changes);
  // The transaction that most are interested in is rarely removed, for the same reason.
  const own = random.below(kind === 'remove' ? 10 : 6) !== 0;
  return {
    kind,
    instance: random.below(instances),
    at,
    /** One of the hot ones, or what the client created last. */
    target: own === (kind === 'remove') ? ('own' as const) : random.below(hot),
    // Rarely one of the last two, which are final: then there is little left to do.
    status: random.below(80) === 0 ? ('CANCELLED' as const) : random.pick(TRANSACTION_STATUSES.slice(0, 6)),
    /** If-Match or If-None-Match with what the client saw last. */
    conditional: random.below(3) === 0,
    /** The list that is read, or the accounts of a new transaction. */
    accounts: random.below(4),
  };
}

/** With few writes a wrong cache entry stays long enough to be read. */
function kindOf(percent: number, changes: number): 'change' | 'get' | 'remove' | 'list' | 'create' {
  if (percent < changes) return 'change';
  if (percent < 76) return 'get';
  if (percent < 80) return 'remove';
  return percent < 92 ? 'list' : 'create';
}

/** Faults that the deployment does not have are at the end. A fault that is listed twice is twice as likely. */
function timedFault(random: Random, { deployment, instances }: Shape): Fault {
  const embedded = deployment === 'embedded';
  const at = random.fraction() * FAULTS_END_MS;
  const forMs = someMs(random, LONGEST_MS);
  const target = random.below(instances);
  const restartMs = Math.min(forMs, LONGEST_RESTART_MS);
  const end = (kind: 'crash' | 'drain') => (): FaultKind => ({ kind, target, forMs: restartMs });
  const network = () => networkFault(random, target, embedded, false, forMs);
  const failover = () => ({ kind: 'failover', forMs: random.below(3_000) }) as const;
  const slowCommits = () => ({ kind: 'slow commits', forMs }) as const;
  const everywhere: (() => FaultKind)[] = [
    end('crash'),
    () => ({ kind: 'pause', target, forMs: Math.min(forMs, 3_000), wakesInOrder: random.below(2) === 0 }),
    ...[network, network, end('drain')],
  ];
  const distributed: (() => FaultKind)[] = [
    ...everywhere,
    () => ({ kind: 'flush' }),
    () => ({ kind: 'network', server: 'redis', of: target, conditions: { ...GOOD, down: true }, forMs }),
    ...[failover, slowCommits, slowCommits],
    () => ({ kind: 'no room for fills', forMs }),
    () => {
      const aheadMs = (random.fraction() - 0.5) * random.pick([2_000, 60_000]);
      return { kind: 'clock', of: random.pick([target, 'redis', 'postgres'] as const), aheadMs };
    },
    failover,
  ];
  return { at, ...random.pick(embedded ? everywhere : distributed)() };
}

function triggeredFault(random: Random, { deployment, hot }: Shape): Fault {
  const subject = random.below(hot);
  const steps = deployment === 'embedded' ? ['changeStatus'] : ['cache-mark', 'change_status', 'cache-lift'];
  const moment = {
    subject,
    operation: { notBefore: random.fraction() * FAULTS_END_MS },
    only: random.pick([undefined, undefined, ...steps]),
    point: random.pick(['sent', 'done'] as const),
  };
  // A process that is stopped asks nothing and answers nothing: long stops are few.
  const pausedMs = random.below(8) === 0 ? random.below(20_000) : random.below(1_500);
  const lateMs = MARK_TTL_MS + random.below(3_000);
  const target = 'caller';
  const pause = (): FaultKind => ({ kind: 'pause', target, forMs: pausedMs, wakesInOrder: random.below(2) === 0 });
  const cut = (): FaultKind => ({ kind: 'cut' });
  const delayMs = () => random.pick([random.below(1_000), random.below(5_000), lateMs]);
  const delay = (): FaultKind => ({ kind: 'delay', forMs: delayMs() });
  const crash = (): FaultKind => ({ kind: 'crash', target, forMs: random.below(LONGEST_RESTART_MS) });
  const everywhere = [crash, pause, pause];
  const distributed: (() => FaultKind)[] = [
    ...[...everywhere, cut, cut, cut, delay, delay, delay, delay],
    () => ({ kind: 'pause and crash', target, forMs: lateMs, thenMs: random.below(40) }),
    () => ({ kind: 'evict', of: subject, what: random.pick(['entry', 'token', 'marks']) }),
    () => ({ kind: 'failover', forMs: random.below(100) }),
  ];
  return { ...moment, ...random.pick(deployment === 'embedded' ? everywhere : distributed)() };
}
