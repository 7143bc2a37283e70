import type { Metric } from 'prom-client';
// By its parts: the whole library also loads OpenTelemetry's interface, which a process without traces does not have (decisions O3).
import Counter from 'prom-client/lib/counter.js';
import Gauge from 'prom-client/lib/gauge.js';
import Registry from 'prom-client/lib/registry.js';
import { Histogram, type Labels } from './histogram.js';

export type Reading = readonly [Labels, number];

/**
 * What `GET /metrics` shows (decisions O2). Counters and gauges are read when somebody looks: the features count in plain
 * numbers, which costs a payment nothing. Nothing here asks a store, so a scrape ends soon, also while all of them are away.
 */
export class Exposition {
  private readonly registry = new Registry();
  private readonly reads = new Map<string, () => Iterable<Reading>>();
  private readonly histograms = new Map<string, Histogram>();

  get contentType(): string {
    return this.registry.contentType;
  }

  text(): Promise<string> {
    return this.registry.metrics();
  }

  /** Of a counter or a gauge what `text` shows of it now. */
  readings(name: string): Iterable<Reading> {
    return known(this.reads, name)();
  }

  /** The same of a histogram: how many values fell between two bounds, in all series with these labels. */
  buckets(
    name: string,
    labels: Labels = {},
  ): { readonly bounds: readonly number[]; readonly counts: readonly number[] } {
    const histogram = known(this.histograms, name);
    return { bounds: histogram.bounds, counts: histogram.countsWith(labels) };
  }

  counter(name: string, help: string, labelNames: readonly string[], read: () => Iterable<Reading>): void {
    this.reads.set(name, read);
    const counter = new Counter({
      ...{ name, help, labelNames, registers: [this.registry] },
      collect() {
        counter.reset();
        for (const [labels, value] of read()) counter.inc(labels, value);
      },
    });
  }

  gauge(name: string, help: string, labelNames: readonly string[], read: () => Iterable<Reading>): void {
    this.reads.set(name, read);
    const gauge = new Gauge({
      ...{ name, help, labelNames, registers: [this.registry] },
      collect() {
        gauge.reset();
        // Without labels the library would show 0 for what is not known.
        if (labelNames.length === 0) gauge.remove();
        for (const [labels, value] of read()) gauge.set(labels, value);
      },
    });
  }

  histogram(name: string, help: string, bounds: readonly number[]): Histogram {
    const histogram = new Histogram(name, bounds);
    this.histograms.set(name, histogram);
    // All that the registry asks of a metric.
    const metric = { name, get: async () => ({ name, help, type: 'histogram', values: histogram.samples() }) };
    this.registry.registerMetric(metric as unknown as Metric);
    return histogram;
  }
}

function known<Metric>(metrics: ReadonlyMap<string, Metric>, name: string): Metric {
  const metric = metrics.get(name);
  if (!metric) throw new Error(`/metrics has no ${name}`);
  return metric;
}

/** One reading for each member of an object of plain numbers, with its name as the label. */
export function* readingsOf(label: string, counts: Readonly<Record<string, number>>): Iterable<Reading> {
  for (const [name, count] of Object.entries(counts)) yield [{ [label]: labelOf(name) }, count];
}

/** Of the words for a state in the code: `not sent` and `fencedOff` are `not_sent` and `fenced_off`. */
export function labelOf(name: string): string {
  return name.replaceAll(' ', '_').replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
