import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Buckets } from '../platform/buckets.js';

type Counts = Readonly<Record<string, number>>;

/** Counts since the process began, as `/metrics` shows them. A sample has the counts of its span. Bounds are seconds. */
export interface Totals {
  /** Answers to `POST /api/payment` by outcome. */
  readonly payments: Counts;
  /** How long requests to `POST /api/payment` took. */
  readonly latency: Buckets;
  readonly cache: { readonly hit: number; readonly miss: number; readonly bypass: number };
  /** Lists of transactions that were sent, and that were answered 304. */
  readonly lists: { readonly sent: number; readonly notModified: number };
  /** Embedded: commits on the disk. Distributed: round trips to PostgreSQL that claim or settle. */
  readonly commit: Buckets;
  readonly loopDelay: Buckets;
}

/** The present values that `/metrics` shows. */
export interface State {
  readonly attempts: { readonly request: number; readonly recovery: number };
  readonly waiters: number;
  /** Null until it was seen. */
  readonly backlog: { readonly payments: number; readonly oldestMs: number } | null;
  /** By `STORE QUEUE`. */
  readonly queues: Counts;
  readonly stores: Readonly<Record<string, boolean>>;
  readonly processorUp: boolean;
  readonly memoryBytes: number;
}

export interface ProcessIdentity {
  readonly instance: string;
  readonly process: {
    readonly host: string;
    readonly pid: number;
    readonly version: string;
    /** Milliseconds since the epoch. */
    readonly startedAt: number;
  };
}

/** One process, as it was in the `spanMs` before `at` (milliseconds since the epoch). */
export interface Sample extends ProcessIdentity, Totals, State {
  readonly type: 'sample';
  readonly at: number;
  readonly spanMs: number;
}

/** The result of one look at the metrics. */
export interface Look {
  readonly totals: Totals;
  readonly state: State;
}

/** The counts between two looks at the same process, and the state at the second one. */
export function spanOf({ totals, state }: Look, before: Look): Totals & State {
  const earlier = before.totals;
  return {
    payments: difference(totals.payments, earlier.payments),
    latency: bucketsSince(totals.latency, earlier.latency),
    cache: difference(totals.cache, earlier.cache),
    lists: difference(totals.lists, earlier.lists),
    commit: bucketsSince(totals.commit, earlier.commit),
    loopDelay: bucketsSince(totals.loopDelay, earlier.loopDelay),
    ...state,
  };
}

function difference<T extends Counts>(now: T, before: T): T {
  return Object.fromEntries(Object.entries(now).map(([name, count]) => [name, count - (before[name] ?? 0)])) as T;
}

function bucketsSince({ bounds, counts }: Buckets, before: Buckets): Buckets {
  return { bounds, counts: counts.map((count, index) => count - (before.counts[index] ?? 0)) };
}

const NUMBER = Type.Number();
const COUNTS = Type.Record(Type.String(), NUMBER);
const BUCKETS = Type.Object({ bounds: Type.Array(NUMBER), counts: Type.Array(NUMBER) });
/** All that the console reads of a sample. Other versions may add members. */
export const SampleSchema = Type.Object({
  type: Type.Literal('sample'),
  at: NUMBER,
  instance: Type.String(),
  process: Type.Object({ host: Type.String(), pid: NUMBER, version: Type.String(), startedAt: NUMBER }),
  spanMs: NUMBER,
  payments: COUNTS,
  latency: BUCKETS,
  cache: Type.Object({ hit: NUMBER, miss: NUMBER, bypass: NUMBER }),
  lists: Type.Object({ sent: NUMBER, notModified: NUMBER }),
  commit: BUCKETS,
  loopDelay: BUCKETS,
  attempts: Type.Object({ request: NUMBER, recovery: NUMBER }),
  waiters: NUMBER,
  backlog: Type.Union([Type.Null(), Type.Object({ payments: NUMBER, oldestMs: NUMBER })]),
  queues: COUNTS,
  stores: Type.Record(Type.String(), Type.Boolean()),
  processorUp: Type.Boolean(),
  memoryBytes: NUMBER,
});
const samples = Compile(SampleSchema);

/** Undefined for a line that is not a whole sample of this service. */
export function sampleIn(line: string): Sample | undefined {
  if (line.includes('\n')) return undefined;
  try {
    const value: unknown = JSON.parse(line);
    return samples.Check(value) && [value.latency, value.commit, value.loopDelay].every(isWhole) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isWhole({ bounds, counts }: Buckets): boolean {
  return counts.length === bounds.length + 1;
}
