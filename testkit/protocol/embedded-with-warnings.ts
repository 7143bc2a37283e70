import { onTestFinished } from 'vitest';
import { type Clock, systemClock } from '#idempay/platform/clock.js';
import { openEmbedded } from '#idempay/stores/embedded/open.js';
import { LONG_MS } from './payment-attempts.js';

/** Opens the embedded deployment in a folder until the test ends, or until it is closed. `warnings` has what its log would have. */
export async function openWithWarnings(dataDir: string, clock: Clock = systemClock) {
  const warnings: string[] = [];
  const notices = { warn: (sentence: string) => warnings.push(sentence) };
  const deployment = await openEmbedded({ dataDir, transactionCacheTtlMs: LONG_MS, clock, notices });
  let closed: Promise<void> | undefined;
  const close = () => (closed ??= deployment.close());
  onTestFinished(close);
  return { ...deployment, warnings, close };
}
