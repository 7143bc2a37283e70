export type Labels = Readonly<Record<string, string>>;

export interface Sample {
  readonly metricName: string;
  readonly labels: Record<string, string | number>;
  readonly value: number;
}

interface Series {
  readonly labels: Labels;
  /** Of values up to each bound and above the one before; the last one of all above. */
  readonly counts: number[];
  sum: number;
}

/**
 * Counts values by buckets, a few additions for each. Not the library's own, which makes objects and texts of the labels for
 * each value: ten times the cost, several times in each payment.
 */
export class Histogram {
  private readonly series = new Map<string, Series>();

  constructor(
    readonly name: string,
    private readonly bounds: readonly number[],
  ) {}

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
    return [...this.series.values()].flatMap(({ labels, counts, sum }) => {
      let count = 0;
      const buckets = counts.map((inBucket, index) => {
        count += inBucket;
        return {
          metricName: `${this.name}_bucket`,
          labels: { le: this.bounds[index] ?? '+Inf', ...labels },
          value: count,
        };
      });
      return [
        ...buckets,
        { metricName: `${this.name}_sum`, labels: { ...labels }, value: sum },
        { metricName: `${this.name}_count`, labels: { ...labels }, value: count },
      ];
    });
  }

  private seriesOf(labels: Labels): Series {
    const name = JSON.stringify(Object.entries(labels));
    const series = this.series.get(name) ?? { labels, counts: [0, ...this.bounds].fill(0), sum: 0 };
    this.series.set(name, series);
    return series;
  }
}
