import { type Ask, ask } from './http-client.js';

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** The samples of `GET /metrics`. Throws if a line is no sample in Prometheus' text format. */
export async function scrape(url: string, headers: Ask['headers'] = {}): Promise<readonly Sample[]> {
  const answer = await ask(`${url}/metrics`, { headers });
  if (answer.status !== 200) throw new Error(`/metrics answered ${answer.status}: ${answer.text}`);
  return readSamples(answer.text);
}

export function readSamples(text: string): Sample[] {
  return text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [, name, labels = '', value] = SAMPLE.exec(line) ?? [];
      if (name === undefined) throw new Error(`/metrics has a line that is no sample: ${line}`);
      const pairs = [...labels.matchAll(LABEL)].map(([, label = '', text = '']) => [label, text] as const);
      return { name, labels: Object.fromEntries(pairs), value: Number(value) };
    });
}

/** The values of one series by one of its labels, summed over the others. */
export function valuesBy(samples: readonly Sample[], name: string, label: string): Record<string, number> {
  const values: Record<string, number> = {};
  for (const sample of samples) {
    if (sample.name !== name) continue;
    const text = sample.labels[label] ?? '';
    values[text] = (values[text] ?? 0) + sample.value;
  }
  return values;
}

/** The sum of all samples of that name with these labels. */
export function sumOf(samples: readonly Sample[], name: string, labels: Sample['labels'] = {}): number {
  return samples
    .filter((sample) => sample.name === name)
    .filter((sample) => Object.entries(labels).every(([label, text]) => sample.labels[label] === text))
    .reduce((sum, { value }) => sum + value, 0);
}
