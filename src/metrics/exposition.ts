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

  get contentType(): string {
    return this.registry.contentType;
  }

  text(): Promise<string> {
    return this.registry.metrics();
  }

  counter(name: string, help: string, labelNames: readonly string[], read: () => Iterable<Reading>): void {
    const counter = new Counter({
      ...{ name, help, labelNames, registers: [this.registry] },
      collect() {
        counter.reset();
        for (const [labels, value] of read()) counter.inc(labels, value);
      },
    });
  }

  gauge(name: string, help: string, labelNames: readonly string[], read: () => Iterable<Reading>): void {
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
    // All that the registry asks of a metric.
    const metric = { name, get: async () => ({ name, help, type: 'histogram', values: histogram.samples() }) };
    this.registry.registerMetric(metric as unknown as Metric);
    return histogram;
  }
}

/** One reading for each member of an object of plain numbers, with its name as the label. */
export function* readingsOf(label: string, counts: Readonly<Record<string, number>>): Iterable<Reading> {
  for (const [name, count] of Object.entries(counts)) yield [{ [label]: labelOf(name) }, count];
}

/** Of the words for a state in the code: `not sent` and `fencedOff` are `not_sent` and `fenced_off`. */
export function labelOf(name: string): string {
  return name.replaceAll(' ', '_').replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
