import { type ExpositionLine, Histogram, type Labels } from './histogram.js';

export type Reading = readonly [Labels, number];

/**
 * The text of `GET /metrics` (rule O2). Counters and gauges are read when somebody looks: the features count in plain numbers, which costs
 * a payment nothing. Nothing here asks a store, so a scrape ends soon, also while all of them are down.
 */
export class Exposition {
  private readonly parts: (() => string)[] = [];

  /** In the text format of Prometheus. */
  text(): string {
    return this.parts.map((part) => part()).join('');
  }

  counter(name: string, help: string, read: () => Iterable<Reading>): void {
    this.show(name, help, 'counter', read);
  }

  gauge(name: string, help: string, read: () => Iterable<Reading>): void {
    this.show(name, help, 'gauge', read);
  }

  histogram(name: string, help: string, bounds: readonly number[]): Histogram {
    const histogram = new Histogram(name, bounds);
    const head = headOf(name, help, 'histogram');
    this.parts.push(() => head + histogram.samples().map(sampleText).join(''));
    return histogram;
  }

  private show(name: string, help: string, type: string, read: () => Iterable<Reading>): void {
    const head = headOf(name, help, type);
    this.parts.push(() => head + [...read()].map(([labels, value]) => sampleText({ name, labels, value })).join(''));
  }
}

function headOf(name: string, help: string, type: string): string {
  const escaped = help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
  return `# HELP ${name} ${escaped}\n# TYPE ${name} ${type}\n`;
}

function sampleText({ name, labels, value }: ExpositionLine): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapedLabel(text)}"`);
  return `${name}${pairs.length > 0 ? `{${pairs.join(',')}}` : ''} ${value}\n`;
}

function escapedLabel(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"');
}

/** One reading for each member of an object of plain numbers, with its name as the label. */
export function* readingsOf(label: string, counts: Readonly<Record<string, number>>): Iterable<Reading> {
  for (const [name, count] of Object.entries(counts)) yield [{ [label]: labelOf(name) }, count];
}

/** The label for the words of a state in the code: `not sent` and `fencedOff` are `not_sent` and `fenced_off`. */
export function labelOf(name: string): string {
  return name.replaceAll(' ', '_').replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
