import type { Buckets } from '../platform/buckets.js';

export type Labels = Readonly<Record<string, string>>;

/** One line of `GET /metrics`. */
export interface ExpositionLine {
  readonly name: string;
  readonly labels: Labels;
  readonly value: number;
}

interface Series {
  readonly labels: Labels;
  /** How many values were up to each bound and above the one before; the last one counts all above. */
  readonly counts: number[];
  sum: number;
}

/** Counts values by buckets, a few additions for each. prom-client takes 1 us for a value, a dozen of which would be a tenth of a payment. */
export class Histogram {
  private readonly series = new Map<string, Series>();

  constructor(
    readonly name: string,
    readonly bounds: readonly number[],
  ) {}

  /** A function that adds a value to the series with these labels; the same function for the same labels. */
  of(labels: Labels = {}): (value: number) => void {
    const { bounds } = this;
    const series = this.seriesOf(labels);
    return (value) => {
      let bucket = 0;
      while (value > (bounds[bucket] ?? Number.POSITIVE_INFINITY)) bucket += 1;
      series.counts[bucket] = (series.counts[bucket] ?? 0) + 1;
      series.sum += value;
    };
  }

  samples(): ExpositionLine[] {
    return [...this.series.values()].flatMap(({ labels, counts, sum }) => {
      let count = 0;
      const buckets = [...this.bounds, '+Inf'].map((bound, index) => {
        count += counts[index] ?? 0;
        return { name: `${this.name}_bucket`, labels: { le: String(bound), ...labels }, value: count };
      });
      return [
        ...buckets,
        { name: `${this.name}_sum`, labels, value: sum },
        { name: `${this.name}_count`, labels, value: count },
      ];
    });
  }

  /** The values of some series together, by bucket. A series that was not asked for yet has none. */
  buckets(...series: readonly Labels[]): Buckets {
    const counts = this.none();
    for (const labels of series) {
      const known = this.series.get(nameOf(labels))?.counts ?? [];
      for (const [bucket, count] of known.entries()) counts[bucket] = (counts[bucket] ?? 0) + count;
    }
    return { bounds: this.bounds, counts };
  }

  private seriesOf(labels: Labels): Series {
    const name = nameOf(labels);
    const series = this.series.get(name) ?? { labels, counts: this.none(), sum: 0 };
    this.series.set(name, series);
    return series;
  }

  private none(): number[] {
    return [0, ...this.bounds].fill(0);
  }
}

function nameOf(labels: Labels): string {
  return JSON.stringify(Object.entries(labels));
}
