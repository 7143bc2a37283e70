import type { Buckets } from '../platform/buckets.js';
import { checkOf, type JsonSchema, objectWith, TEXT } from '../platform/json-schema.js';

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

const NUMBER = { type: 'number' };
const NUMBERS = { type: 'array', items: NUMBER };
const BUCKETS = objectWith({ bounds: NUMBERS, counts: NUMBERS });
const COUNTS = mapOf(NUMBER);
/** All that the console reads of a sample. Other versions may add members. */
export const SampleSchema = objectWith({
  type: { ...TEXT, const: 'sample' },
  at: NUMBER,
  instance: TEXT,
  process: objectWith({ host: TEXT, pid: NUMBER, version: TEXT, startedAt: NUMBER }),
  spanMs: NUMBER,
  payments: COUNTS,
  latency: BUCKETS,
  cache: objectWith({ hit: NUMBER, miss: NUMBER, bypass: NUMBER }),
  lists: objectWith({ sent: NUMBER, notModified: NUMBER }),
  commit: BUCKETS,
  loopDelay: BUCKETS,
  attempts: objectWith({ request: NUMBER, recovery: NUMBER }),
  waiters: NUMBER,
  backlog: { anyOf: [{ type: 'null' }, objectWith({ payments: NUMBER, oldestMs: NUMBER })] },
  queues: COUNTS,
  stores: mapOf({ type: 'boolean' }),
  processorUp: { type: 'boolean' },
  memoryBytes: NUMBER,
});
const problemOfSample = checkOf(SampleSchema);

function mapOf(schema: JsonSchema): JsonSchema {
  return { type: 'object', patternProperties: { '^.*$': schema } };
}

/** Undefined for a line that is not a whole sample of this service. */
export function sampleIn(line: string): Sample | undefined {
  if (line.includes('\n')) return undefined;
  try {
    const value: unknown = JSON.parse(line);
    if (problemOfSample(value)) return undefined;
    const sample = value as Sample;
    return [sample.latency, sample.commit, sample.loopDelay].every(isWhole) ? sample : undefined;
  } catch {
    return undefined;
  }
}

function isWhole({ bounds, counts }: Buckets): boolean {
  return counts.length === bounds.length + 1;
}
