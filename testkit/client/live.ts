import type { Sample } from '#idempay/live/sample.js';
import { pause, until } from '../time/until.js';
import { type Ask, ask } from './http-client.js';

export interface LiveSamples {
  readonly intervalMs: number;
  readonly keepMs: number;
  readonly instance: string;
  readonly samples: readonly Sample[];
}

const SAMPLES_DEADLINE_MS = 30_000;
/** Sooner than a page does, so that a test waits for less. */
const POLL_EVERY_MS = 250;
/** As a page does. */
const OVERLAP_MS = 60_000;

/** One `GET /api/live`. */
export async function readLive(url: string, headers: Ask['headers'] = {}, query = ''): Promise<LiveSamples> {
  const answer = await ask(`${url}/api/live${query}`, { headers });
  if (answer.status !== 200) throw new Error(`/api/live answered ${answer.status}: ${answer.text}`);
  return answer.json<LiveSamples>();
}

/** Polls `GET /api/live` while something is waited for, and keeps each sample once, in the order in which they came. */
export function followLive(url: string) {
  const known = new Map<string, Sample>();
  const samples = () => [...known.values()];
  return {
    samples,
    /** All samples, once there are some that are so. */
    until: (what: string, isThere: (samples: readonly Sample[]) => boolean) =>
      until(what, SAMPLES_DEADLINE_MS, async () => {
        await pause(POLL_EVERY_MS);
        const since = Math.max(0, ...samples().map(({ at }) => at)) - OVERLAP_MS;
        const answer = await readLive(url, {}, since > 0 ? `?since=${since}` : '');
        for (const sample of answer.samples) known.set(`${sample.instance} ${sample.at}`, sample);
        return isThere(samples()) && samples();
      }),
  };
}
