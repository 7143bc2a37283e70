import { type Random, seededRandom } from '../../test/support/random.js';
import type { Weather } from './network.js';
import type { ProcessorBehaviour } from './processor.js';

/** Everything that a seed sets in motion, before anything has happened; a smaller plan is a simpler history. */
export interface PaymentPlan {
  readonly seed: number;
  readonly shape: Shape;
  readonly scripts: readonly KeyScript[];
  readonly troubles: readonly Trouble[];
}

export interface Shape {
  readonly deployment: 'embedded' | 'distributed';
  readonly instances: number;
  readonly leaseMs: number;
  readonly idempotencyTtlMs: number;
  readonly processorTimeoutMs: number;
  /** 0: the processor deduplicates nothing, and the service knows. */
  readonly dedupMs: number;
  readonly payloadMismatch: 'replay' | 'reject';
}

/** What one client does with one key. */
export interface KeyScript {
  readonly at: number;
  readonly instance: number;
  readonly amount: string;
  readonly requests: readonly PlannedRequest[];
  /** Whether it asks again when the trouble is over; else only recovery can finish the payment. */
  readonly asksAgain: boolean;
}

export interface PlannedRequest {
  /** After the key was issued. */
  readonly afterMs: number;
  readonly instance: number;
  /** Another one than the script's: what is charged must not depend on it. */
  readonly otherAmount: string | undefined;
  readonly patienceMs: number;
  /** How often it is repeated while its answer is not final. */
  readonly repeats: number;
}

export type Trouble =
  | { readonly at: number; readonly kind: 'crash'; readonly instance: number; readonly forMs: number }
  | { readonly at: number; readonly kind: 'pause'; readonly instance: number; readonly forMs: number }
  | { readonly at: number; readonly kind: 'forget everything' }
  | { readonly at: number; readonly kind: 'forget the last writes'; readonly forMs: number }
  | {
      readonly at: number;
      readonly kind: 'weather';
      readonly server: 'key store' | 'ledger';
      readonly weather: Weather;
      readonly forMs: number;
    }
  | {
      readonly at: number;
      readonly kind: 'processor';
      readonly behaviour: Partial<ProcessorBehaviour>;
      readonly forMs: number;
    }
  | {
      readonly at: number;
      readonly kind: 'clock';
      readonly of: number | 'key store' | 'ledger';
      readonly aheadMs: number;
    };

/** Trouble comes within this time; what follows is quiet. */
export const TROUBLED_MS = 60_000;

const AMOUNTS = ['1.00', '20.50', '300.00', '4000.99'] as const;

export function planPayments(seed: number): PaymentPlan {
  const random = seededRandom(seed);
  const shape = shapeOf(random);
  const scripts = Array.from({ length: 4 + random.below(10) }, () => scriptOf(random.fork(), shape));
  const troubles = Array.from({ length: random.below(14) }, () => troubleOf(random.fork(), shape));
  return { seed, shape, scripts, troubles: troubles.filter((trouble) => isPossible(trouble, shape)) };
}

function shapeOf(random: Random): Shape {
  const deployment = random.below(4) === 0 ? 'embedded' : 'distributed';
  const leaseMs = random.pick([3_000, 8_000, 30_000]);
  return {
    deployment,
    instances: deployment === 'embedded' ? 1 : 2 + random.below(2),
    leaseMs,
    idempotencyTtlMs: random.pick([10_000, 40_000, 3_600_000, 3_600_000]),
    processorTimeoutMs: random.pick([500, 2_500]),
    dedupMs: random.pick([0, 20_000, 72_000_000, 72_000_000]),
    payloadMismatch: random.pick(['replay', 'reject'] as const),
  };
}

function scriptOf(random: Random, { instances }: Shape): KeyScript {
  const amount = random.pick(AMOUNTS);
  const requests = Array.from({ length: 1 + random.below(4) }, (_, index) => ({
    // The first two often at the same moment, others while the first is under way, or long after.
    afterMs: index < 2 ? random.below(10) : random.pick([random.below(200), random.below(5_000), random.below(50_000)]),
    instance: random.below(instances),
    otherAmount: random.below(8) === 0 ? random.pick(AMOUNTS) : undefined,
    patienceMs: random.below(3) === 0 ? random.pick([1_000, 10_000, 30_000]) : 0,
    repeats: random.below(4),
  }));
  return {
    at: random.fraction() * TROUBLED_MS,
    instance: random.below(instances),
    amount,
    requests,
    asksAgain: random.below(2) === 0,
  };
}

function troubleOf(random: Random, { instances }: Shape): Trouble {
  const at = random.fraction() * TROUBLED_MS;
  const forMs = random.pick([random.below(300), random.below(5_000), random.below(40_000)]);
  const instance = random.below(instances);
  switch (random.below(9)) {
    case 0:
    case 1:
      return { at, kind: 'crash', instance, forMs };
    case 2:
      return { at, kind: 'pause', instance, forMs };
    case 3:
      return { at, kind: 'forget everything' };
    case 4:
      return { at, kind: 'forget the last writes', forMs: random.below(3_000) };
    case 5:
      return {
        at,
        kind: 'weather',
        server: random.pick(['key store', 'ledger'] as const),
        weather: badWeather(random),
        forMs,
      };
    case 6:
    case 7:
      return { at, kind: 'processor', behaviour: badBehaviour(random), forMs };
    default:
      return {
        at,
        kind: 'clock',
        of: random.pick([instance, 'key store', 'ledger'] as const),
        aheadMs: (random.fraction() - 0.5) * random.pick([2_000, 120_000]),
      };
  }
}

function badWeather(random: Random): Weather {
  const some = () => random.pick([0, 0.1, 0.5]);
  return {
    lostRequest: some(),
    lostReply: some(),
    repeated: some(),
    slow: random.pick([0, 0.2]),
    down: random.below(4) === 0,
  };
}

function badBehaviour(random: Random): Partial<ProcessorBehaviour> {
  const some = () => random.pick([0, 0, 0.3, 1]);
  return {
    latencyMs: random.pick([50, 1_000, 20_000]),
    declines: random.pick([0, 0.3]),
    fails: some(),
    lostRequest: some(),
    lostReply: some(),
    late: random.pick([0, 0.5]),
    down: random.below(5) === 0,
  };
}

/** On one machine nothing is forgotten, and nothing is lost between the process and its file; the disk may be full. */
function isPossible(trouble: Trouble, { deployment }: Shape): boolean {
  if (deployment === 'distributed') return true;
  if (trouble.kind === 'weather') return trouble.weather.down;
  return trouble.kind !== 'forget everything' && trouble.kind !== 'forget the last writes';
}
