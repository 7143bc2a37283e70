import { durationText } from '../parts/duration.js';
import { bytesText, countText, roughText, shareText } from '../parts/numbers.js';
import { added, quantile } from './quantiles.js';
import type { Buckets, Sample } from './sample.js';

/** One line of a chart. */
export interface Series {
  readonly name: string;
  /** Place in the palette, and the pattern of its dashes: nobody has to tell lines apart by colour alone. */
  readonly style: number;
  /** Null if nothing is known, or there was nothing to measure. */
  value(samples: readonly Sample[]): number | null;
  /** Only drawn and listed while it has been more than 0. */
  readonly isRare?: boolean;
}

export interface ChartDefinition {
  readonly name: string;
  readonly title: string;
  readonly series: readonly Series[];
  text(value: number): string;
  /** The highest value of the axis. Undefined if it follows from the data. */
  readonly most?: number;
  /** The step between the marks of the axis. Undefined if any step is good. */
  readonly steps?: readonly number[];
  readonly width?: 'wide';
}

/** As `idempay_payments_total` has them: what was told to those who pay. */
const OUTCOMES: Readonly<Record<string, string>> = {
  processed: 'processed',
  replayed: 'replayed',
  declined: 'declined',
  pending: 'pending',
  in_progress: 'in progress',
  unknown: 'unknown',
  unavailable: 'unavailable',
  not_sent: 'not sent',
  refused_for_load: 'refused for load',
  refused: 'refused',
  mismatch: 'mismatch',
  invalid_key: 'invalid key',
  error: 'error',
};
const ALWAYS_SHOWN = ['processed', 'replayed'];
const PERCENTILES = [
  ['p50', 0.5],
  ['p95', 0.95],
  ['p99', 0.99],
] as const;
/** If both are made of the same samples, less may be worth a line. */
const FEWER_PERCENTILES = [PERCENTILES[0], PERCENTILES[2]] as const;

/** Axis steps for whole numbers, such as counts of payments. */
export const WHOLE_STEPS = Array.from({ length: 9 }, (_, digits) =>
  [1, 2, 5].map((step) => step * 10 ** digits),
).flat();
const WHOLE_SECONDS_MS = WHOLE_STEPS.map((step) => step * 1_000);

const perSecond = (value: number) => `${roughText(value)}/s`;
const seconds = (value: number) =>
  value < 0.001 ? '< 1 ms' : value < 1 ? `${roughText(value * 1_000)} ms` : `${roughText(value)} s`;

/** `queues`: the names that were seen. */
export function chartsOf(queues: readonly string[]): readonly ChartDefinition[] {
  return [
    {
      name: 'payments',
      title: 'Payments per second',
      width: 'wide',
      text: perSecond,
      series: Object.entries(OUTCOMES).map(([outcome, name], style) => ({
        name,
        style,
        isRare: !ALWAYS_SHOWN.includes(outcome),
        value: (samples) => rateOf(samples, ({ payments }) => payments[outcome] ?? 0),
      })),
    },
    {
      name: 'latency',
      title: 'Latency of a payment',
      width: 'wide',
      text: seconds,
      series: percentilesOf(({ latency }) => latency),
    },
    {
      name: 'ratios',
      title: 'Answered without reading',
      text: shareText,
      most: 1,
      series: [
        { name: 'cache hits', style: 0, value: hitRatio },
        { name: 'lists unchanged (304)', style: 1, value: notModifiedRatio },
      ],
    },
    {
      name: 'flight',
      title: 'Under way',
      text: countText,
      steps: WHOLE_STEPS,
      series: [
        { name: 'requests', style: 0, value: sumOf(({ attempts }) => attempts.request) },
        { name: 'recovery', style: 1, value: sumOf(({ attempts }) => attempts.recovery) },
        { name: 'waiting', style: 2, value: sumOf(({ waiters }) => waiters) },
      ],
    },
    {
      name: 'backlog',
      title: 'Claims awaiting recovery',
      text: countText,
      steps: WHOLE_STEPS,
      series: [{ name: 'claims', style: 4, value: highestOf(({ backlog }) => backlog?.payments ?? null) }],
    },
    {
      name: 'oldest',
      title: 'Oldest claim awaiting recovery',
      text: durationText,
      steps: WHOLE_SECONDS_MS,
      series: [{ name: 'age', style: 4, value: highestOf(({ backlog }) => backlog?.oldestMs ?? null) }],
    },
    {
      name: 'queues',
      title: 'Waiting for a store',
      text: countText,
      steps: WHOLE_STEPS,
      series: queues.map((name, style) => ({ name, style, value: sumOf((sample) => sample.queues[name] ?? 0) })),
    },
    { name: 'commit', title: 'Commit', text: seconds, series: percentilesOf(({ commit }) => commit) },
    {
      name: 'loop',
      title: 'Delay of the event loop',
      text: seconds,
      series: percentilesOf(({ loopDelay }) => loopDelay, FEWER_PERCENTILES),
    },
    {
      name: 'memory',
      title: 'Memory',
      text: bytesText,
      series: [{ name: 'resident', style: 0, value: sumOf(({ memoryBytes }) => memoryBytes) }],
    },
  ];
}

/** Each process counts its own span. */
export function rateOf(samples: readonly Sample[], count: (sample: Sample) => number): number | null {
  if (samples.length === 0) return null;
  return samples.reduce((sum, sample) => sum + (count(sample) * 1_000) / sample.spanMs, 0);
}

export const allPayments = ({ payments }: Sample) => Object.values(payments).reduce((sum, count) => sum + count, 0);

function percentilesOf(
  buckets: (sample: Sample) => Buckets,
  percentiles: readonly (readonly [string, number])[] = PERCENTILES,
): Series[] {
  return percentiles.map(([name, share], style) => ({
    name,
    style,
    value: (samples) => quantile(share, added(samples.map(buckets))),
  }));
}

function sumOf(value: (sample: Sample) => number): Series['value'] {
  return (samples) => (samples.length === 0 ? null : samples.reduce((sum, sample) => sum + value(sample), 0));
}

/** All processes read it of the same rows, so they are not added. */
function highestOf(value: (sample: Sample) => number | null): Series['value'] {
  return (samples) => {
    const known = samples.map(value).filter((one) => one !== null);
    return known.length === 0 ? null : Math.max(...known);
  };
}

export function hitRatio(samples: readonly Sample[]): number | null {
  return shareOf(samples, ({ cache }) => [cache.hit, cache.hit + cache.miss + cache.bypass]);
}

function notModifiedRatio(samples: readonly Sample[]): number | null {
  return shareOf(samples, ({ lists }) => [lists.notModified, lists.notModified + lists.sent]);
}

function shareOf(
  samples: readonly Sample[],
  parts: (sample: Sample) => readonly [part: number, whole: number],
): number | null {
  let [part, whole] = [0, 0];
  for (const sample of samples) {
    const [one, all] = parts(sample);
    part += one;
    whole += all;
  }
  return whole === 0 ? null : part / whole;
}
