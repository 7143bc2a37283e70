import { randomUUID } from 'node:crypto';
import { isLoopback } from '../access/loopback.js';
import { createHttpProcessor } from '../payments/processors/http.js';
import { type Finding, milliseconds, verdictOf } from '../platform/finding.js';

/** The doctor waits no longer than this, even where payments do. */
const LIMIT_MS = 5_000;

/** Looks up a reference that nobody ever charged, as a takeover does (docs/guides/processor.md). Charges nothing. */
export async function examineProcessor(settings: {
  url: string;
  account: string | undefined;
  timeoutMs: number;
  dedupMs: number;
}): Promise<readonly Finding[]> {
  const alarms: string[] = [];
  const timeoutMs = Math.min(settings.timeoutMs, LIMIT_MS);
  const alarm = (cause: string) => alarms.push(cause);
  const processor = createHttpProcessor({ ...settings, timeoutMs, connections: 1, alarm });
  const startedAt = performance.now();
  const result = await processor.lookUp(randomUUID());
  const tookMs = performance.now() - startedAt;
  await processor.close();
  const { protocol, hostname } = new URL(settings.url);
  const isOpen = protocol === 'http:' && !isLoopback(hostname);
  return [
    {
      verdict: verdictOf(result.state !== 'no record'),
      what: 'Processor look-up',
      found:
        result.state === 'no record'
          ? `no record, in ${milliseconds(tookMs)}`
          : (alarms[0] ??
            ('cause' in result ? result.cause : `${result.state}, for a reference that was never charged`)),
      wanted: '404 for a random reference',
      why: 'a takeover looks up before it charges; docs/guides/processor.md is the contract',
    },
    {
      verdict: verdictOf(false, isOpen),
      what: 'Processor TLS',
      found: protocol === 'https:' ? 'yes' : 'none',
      wanted: 'https, unless on this machine',
      why: 'credentials and payments can be read on the way',
    },
  ];
}
