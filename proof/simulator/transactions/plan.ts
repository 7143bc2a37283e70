import type { TransactionStatus } from '#idempay/transactions/transaction.js';
import { TRANSACTION_STATUSES } from '#idempay/transactions/transaction.js';
import type { Random } from '../../../testkit/random.js';
import { seededRandom } from '../../../testkit/random.js';
import type { Point } from '../ambushes.js';
import { FINE, type Weather } from '../network.js';
import { badWeather } from '../weather.js';
import { MARK_TTL_MS } from './cache.js';

/** Everything that a seed sets in motion, before anything has happened. */
export interface TransactionPlan {
  readonly seed: number;
  readonly shape: Shape;
  readonly scripts: readonly ClientScript[];
  readonly troubles: readonly Trouble[];
}

export interface Shape {
  readonly deployment: 'embedded' | 'distributed';
  readonly instances: number;
  /** Transactions that are there from the beginning, and that most clients are interested in. */
  readonly hot: number;
  readonly cacheTtlMs: number;
  /** How often a statement takes long to commit, also when nothing is wrong. */
  readonly slowCommits: number;
  /** Status changes in a hundred actions. */
  readonly changes: number;
}

/** What one client does, one thing after another. */
export interface ClientScript {
  readonly number: number;
  readonly actions: readonly Action[];
}

export interface Action {
  readonly kind: 'create' | 'get' | 'change' | 'remove' | 'list';
  readonly instance: number;
  /** Or when the answer before has come, if that is later. */
  readonly at: number;
  /** One of the hot ones, or what the client created last. */
  readonly target: number | 'own';
  readonly status: TransactionStatus;
  /** If-Match or If-None-Match with what the client saw last. */
  readonly conditional: boolean;
  /** Of a list: which one; of a create: its accounts. */
  readonly accounts: number;
}

/** By the time, or between two steps of whoever is the first to be at work on a hot transaction then. */
export type Moment =
  | { readonly at: number }
  | {
      readonly hot: number;
      readonly notBefore: number;
      readonly point: Point;
      /** Only at this step of a write. */
      readonly only: string | undefined;
    };

type Whom = number | 'caller';

export type Blow =
  | { readonly kind: 'crash'; readonly whom: Whom; readonly forMs: number }
  | { readonly kind: 'pause'; readonly whom: Whom; readonly forMs: number; readonly wakesInOrder: boolean }
  /** It wakes only to die. */
  | { readonly kind: 'pause and crash'; readonly whom: Whom; readonly forMs: number; readonly thenMs: number }
  | { readonly kind: 'cut' }
  /** It is late. */
  | { readonly kind: 'delay'; readonly forMs: number }
  /** FLUSHALL: the server goes on under its old name. */
  | { readonly kind: 'forget everything' }
  | { readonly kind: 'forget'; readonly hot: number; readonly what: 'entry' | 'token' | 'marks' }
  /** A restart from an old file, or a replica that had not heard of the last writes: the server has a new name. */
  | { readonly kind: 'fall back'; readonly forMs: number }
  | {
      readonly kind: 'weather';
      readonly server: 'cache' | 'store';
      readonly of: number | 'all';
      readonly weather: Weather;
      readonly forMs: number;
    }
  | { readonly kind: 'slow commits'; readonly forMs: number }
  | { readonly kind: 'no room for fills'; readonly forMs: number }
  | { readonly kind: 'clock'; readonly of: number | 'cache' | 'store'; readonly aheadMs: number };

export type Trouble = Moment & Blow;

export const TROUBLED_MS = 30_000;
/** Until a write that was late in the last moment is done, and its mark gone. */
const WATCHED_LONGER_MS = 15_000;

/** Blows that take a write's mark away while the write is under way, or let it be judged by a wrong clock. */
export function mayLoseMarks({ kind, ...rest }: Blow): boolean {
  if (kind === 'clock') return typeof (rest as { of?: unknown }).of === 'string';
  return kind === 'forget everything' || kind === 'forget' || kind === 'fall back';
}

/** Longer, and most clients would ask nobody. */
const LONGEST_RESTART_MS = 2_000;

export function planTransactions(seed: number): TransactionPlan {
  const random = seededRandom(seed);
  const embedded = random.below(4) === 0;
  const shape: Shape = {
    deployment: embedded ? 'embedded' : 'distributed',
    instances: embedded ? 1 : 2 + random.below(2),
    hot: 1 + random.below(6),
    cacheTtlMs: random.pick([300, 300_000, 300_000]),
    slowCommits: random.pick([0, 0, 0.2]),
    changes: random.pick([4, 12, 26]),
  };
  const clients = Array.from({ length: 8 + random.below(40) }, (_, number) => scriptOf(number, random.fork(), shape));
  const scripts = [...clients, watcherOf(clients.length, random.fork(), shape)];
  // Half of the histories keep every mark: only there nobody may see an older version after a newer one.
  const keepsMarks = random.below(2) === 0;
  const troubles = [
    ...Array.from({ length: random.below(12) }, () => timedTrouble(random.fork(), shape)),
    ...Array.from({ length: random.pick([2, 6, 16]) }, () => ambush(random.fork(), shape)),
  ];
  const possible = troubles.filter((trouble) => trouble !== undefined);
  return { seed, shape, scripts, troubles: possible.filter((trouble) => !keepsMarks || !mayLoseMarks(trouble)) };
}

function scriptOf(number: number, random: Random, shape: Shape): ClientScript {
  const hurry = random.pick([40, 400, 3_000]);
  let at = random.fraction() * TROUBLED_MS * 0.7;
  const actions = Array.from({ length: 4 + random.below(16) }, () => {
    at += random.below(hurry);
    return actionOf(random, shape, at);
  });
  return { number, actions };
}

/** Somebody who only reads, all the time and a little longer: what is wrong in the cache is seen before it is mended. */
function watcherOf(number: number, random: Random, shape: Shape): ClientScript {
  const actions: Action[] = [];
  for (let at = 0; at < TROUBLED_MS + WATCHED_LONGER_MS; at += random.below(500)) {
    actions.push({ ...actionOf(random, shape, at), kind: 'get', target: random.below(shape.hot) });
  }
  return { number, actions };
}

function actionOf(random: Random, { instances, hot, changes }: Shape, at: number): Action {
  const kind = kindOf(random.below(100), changes);
  // What most are interested in is rarely removed, for the same reason.
  const own = random.below(kind === 'remove' ? 10 : 6) !== 0;
  return {
    kind,
    instance: random.below(instances),
    at,
    target: own === (kind === 'remove') ? 'own' : random.below(hot),
    // Rarely one of the last two, which are final: then there is little left to do.
    status: random.below(80) === 0 ? 'CANCELLED' : random.pick(TRANSACTION_STATUSES.slice(0, 6)),
    conditional: random.below(3) === 0,
    accounts: random.below(4),
  };
}

/** Where little is written, what is wrong in the cache stays there long enough to be seen. */
function kindOf(percent: number, changes: number): Action['kind'] {
  if (percent < changes) return 'change';
  if (percent < 76) return 'get';
  if (percent < 80) return 'remove';
  return percent < 92 ? 'list' : 'create';
}

function someMs(random: Random): number {
  return random.pick([random.below(300), random.below(3_000), random.below(20_000)]);
}

function timedTrouble(random: Random, { deployment, instances }: Shape): Trouble | undefined {
  const embedded = deployment === 'embedded';
  const at = random.fraction() * TROUBLED_MS;
  const forMs = someMs(random);
  const whom = random.below(instances);
  switch (random.below(embedded ? 4 : 12)) {
    case 0:
      return { at, kind: 'crash', whom, forMs: Math.min(forMs, LONGEST_RESTART_MS) };
    case 1:
      return { at, kind: 'pause', whom, forMs: Math.min(forMs, 3_000), wakesInOrder: random.below(2) === 0 };
    case 2:
    case 3: {
      const server = random.pick(['cache', 'store'] as const);
      const weather = embedded ? { ...FINE, full: true } : { ...badWeather(random), repeated: 0 };
      return { at, kind: 'weather', server, of: random.pick([whom, 'all'] as const), weather, forMs };
    }
    case 4:
      return { at, kind: 'forget everything' };
    case 5:
      return { at, kind: 'weather', server: 'cache', of: whom, weather: { ...FINE, down: true }, forMs };
    case 6:
    case 11:
      return { at, kind: 'fall back', forMs: random.below(3_000) };
    case 7:
    case 8:
      return { at, kind: 'slow commits', forMs };
    case 9:
      return { at, kind: 'no room for fills', forMs };
    default: {
      const aheadMs = (random.fraction() - 0.5) * random.pick([2_000, 60_000]);
      return { at, kind: 'clock', of: random.pick([whom, 'cache', 'store'] as const), aheadMs };
    }
  }
}

function ambush(random: Random, { deployment, hot }: Shape): Trouble | undefined {
  const moment = {
    hot: random.below(hot),
    notBefore: random.fraction() * TROUBLED_MS,
    only: random.pick([undefined, undefined, 'marks', 'sets', 'refreshes']),
    point: random.pick(['sent', 'done'] as const),
  };
  // Who is stopped asks nothing and answers nothing: long stops are few.
  const pausedMs = random.below(8) === 0 ? random.below(20_000) : random.below(1_500);
  const lateMs = MARK_TTL_MS + random.below(3_000);
  switch (random.below(deployment === 'embedded' ? 2 : 13)) {
    case 0:
      return { ...moment, kind: 'crash', whom: 'caller', forMs: random.below(LONGEST_RESTART_MS) };
    case 1:
    case 2:
      return { ...moment, kind: 'pause', whom: 'caller', forMs: pausedMs, wakesInOrder: random.below(2) === 0 };
    case 3:
    case 4:
    case 5:
      return { ...moment, kind: 'cut' };
    case 6:
    case 7:
    case 8:
    case 9:
      return { ...moment, kind: 'delay', forMs: random.pick([random.below(1_000), random.below(5_000), lateMs]) };
    case 10:
      return { ...moment, kind: 'pause and crash', whom: 'caller', forMs: lateMs, thenMs: random.below(40) };
    case 11:
      return { ...moment, kind: 'forget', what: random.pick(['entry', 'token', 'marks'] as const) };
    default:
      return { ...moment, kind: 'fall back', forMs: random.below(100) };
  }
}
