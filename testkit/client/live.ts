import { TextLines } from '@idempay/client/text-lines';
import type { Sample } from '#idempay/live/sample.js';
import { until } from '../time/until.js';

export type LiveLine =
  | { readonly type: 'hello'; readonly intervalMs: number; readonly keepMs: number; readonly instance: string }
  | { readonly type: 'beat'; readonly at: number }
  | Sample;

export type LiveReader = Awaited<ReturnType<typeof openLive>>;

const SAMPLES_DEADLINE_MS = 30_000;

/** Reads `GET /api/live`; `lines` grows until the stream ends. */
export async function openLive(url: string, headers: Record<string, string> = {}, query = '') {
  const closing = new AbortController();
  const response = await fetch(`${url}/api/live${query}`, { headers, signal: closing.signal });
  if (response.status !== 200) throw new Error(`/api/live answered ${response.status}: ${await response.text()}`);
  const lines: LiveLine[] = [];
  async function read(): Promise<void> {
    const text = new TextLines();
    // Each time that is called the body has a part more.
    for await (const part of (response.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream())) {
      lines.push(...text.add(part).map((line) => JSON.parse(line) as LiveLine));
    }
    if (text.rest !== '') throw new Error(`the stream ended within a line: ${text.rest}`);
  }
  const ended = read();
  ended.catch(() => {});
  const hello = await until('the first line', SAMPLES_DEADLINE_MS, () => lines[0]);
  if (hello.type !== 'hello') throw new Error(`the first line is ${JSON.stringify(hello)}`);
  const samples = () => lines.filter((line): line is Sample => line.type === 'sample');
  return {
    headers: response.headers,
    /** The instance id of the process that was asked. */
    instance: hello.instance,
    lines,
    samples,
    /** Resolves when the service has ended the stream; rejects where it was cut. */
    ended,
    close: () => closing.abort(),
    /** All samples, once there are some that are so. */
    until: (what: string, isThere: (samples: readonly Sample[]) => boolean) =>
      until(what, SAMPLES_DEADLINE_MS, () => isThere(samples()) && samples()),
  };
}
