export type Labels = Readonly<Record<string, string>>;

/** One line of `GET /metrics`. */
export interface Sample {
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

/** Counts values by buckets, a few additions for each (decision 0027). */
export class Histogram {
  private readonly series = new Map<string, Series>();

  constructor(
    readonly name: string,
    readonly bounds: readonly number[],
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
