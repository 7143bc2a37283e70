export type Labels = Readonly<Record<string, string>>;

/** As the registry of prom-client takes it. It keeps the text of `sharedLabels`, which are the same object each time. */
export interface Sample {
  readonly metricName: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly sharedLabels: Labels;
  readonly value: number;
}

interface Series {
  readonly labels: Labels;
  /** Of values up to each bound and above the one before; the last one of all above. */
  readonly counts: number[];
  sum: number;
}

const NO_LABELS = {};

/**
 * Counts values by buckets, a few additions for each. Not the library's own, which makes objects and texts of the labels for
 * each value: ten times the cost, several times in each payment.
 */
export class Histogram {
  private readonly series = new Map<string, Series>();
  private readonly bucketLabels: readonly { readonly le: number | '+Inf' }[];

  constructor(
    readonly name: string,
    readonly bounds: readonly number[],
  ) {
    this.bucketLabels = [...bounds, '+Inf' as const].map((le) => ({ le }));
  }

  /** What adds a value to the series with these labels, which is the same for the same labels. */
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

  samples(): Sample[] {
    const metricName = `${this.name}_bucket`;
    const samples: Sample[] = [];
    for (const { labels: sharedLabels, counts, sum } of this.series.values()) {
      let count = 0;
      for (const [index, labels] of this.bucketLabels.entries()) {
        count += counts[index] ?? 0;
        samples.push({ metricName, labels, sharedLabels, value: count });
      }
      samples.push({ metricName: `${this.name}_sum`, labels: NO_LABELS, sharedLabels, value: sum });
      samples.push({ metricName: `${this.name}_count`, labels: NO_LABELS, sharedLabels, value: count });
    }
    return samples;
  }

  /** The values of all series with these labels by bucket, as `samples` shows them, but not added up. */
  countsWith(labels: Labels): number[] {
    const counts = [0, ...this.bounds].fill(0);
    for (const series of this.series.values()) {
      if (!Object.entries(labels).every(([label, value]) => series.labels[label] === value)) continue;
      for (const [bucket, count] of series.counts.entries()) counts[bucket] = (counts[bucket] ?? 0) + count;
    }
    return counts;
  }

  private seriesOf(labels: Labels): Series {
    const name = JSON.stringify(Object.entries(labels));
    const series = this.series.get(name) ?? { labels, counts: [0, ...this.bounds].fill(0), sum: 0 };
    this.series.set(name, series);
    return series;
  }
}
