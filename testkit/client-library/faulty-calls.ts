import { Idempay } from '@idempay/client';
import { checkClientCalls } from '../checkers/client-calls.js';
import { inParallel } from '../concurrency.js';
import type { Deployment } from '../deployments/deployments.js';
import type { Violation } from '../history/history.js';
import { seededRandom } from '../random.js';
import { amountOf, callPay, callResume, lastTold, type PayCall } from './calls.js';
import { openFaultyEnvironment } from './faulty-environment.js';

const WIDTH = 64;
const ATTEMPT_TIMEOUT_MS = 1_500;
const SHORTEST_DEADLINE_MS = 500;
const LONGEST_DEADLINE_MS = 8_000;
/** How long `onKey` takes at most to store a key. */
const LONGEST_KEEP_MS = 10;
/** One client in this number fetches keys ahead. */
const FETCHES_AHEAD = 4;
const KEYS_AHEAD = 5;
const MOST_RESUMES = 20;
const LAST_DEADLINE_MS = 15_000;

export interface FaultyCallsResult {
  readonly violations: readonly Violation[];
  /** How the calls ended first, and in the end; what the proxy did; how often a service was killed. */
  readonly tally: Readonly<Record<string, number>>;
}

/** Calls of `pay` through everything that can go wrong, then `resume` until all are settled, then the check. */
export async function runFaultyCalls(
  deployment: Deployment,
  calls: number,
  seed: number,
  settings: Record<string, string> = {},
): Promise<FaultyCallsResult> {
  const random = seededRandom(seed);
  const environment = await openFaultyEnvironment(deployment, random, settings);
  try {
    const { url, proxy, processor, sentAt } = environment;
    const idempay = new Idempay({ baseUrl: url, attemptTimeoutMs: ATTEMPT_TIMEOUT_MS, keyLifeMs: ATTEMPT_TIMEOUT_MS });
    let made: PayCall[] = [];
    await environment.killingDuring(async () => {
      made = await inParallel(calls, WIDTH, async (index) => {
        if (random.below(FETCHES_AHEAD) === 0) {
          await idempay.payments.prefetchKeys(KEYS_AHEAD, { deadlineMs: SHORTEST_DEADLINE_MS }).catch(() => {});
        }
        // Mostly short, so that many calls end before their outcome is known.
        const deadlineMs = SHORTEST_DEADLINE_MS + random.fraction() ** 2 * (LONGEST_DEADLINE_MS - SHORTEST_DEADLINE_MS);
        const call = await callPay(idempay, amountOf(index), { deadlineMs, keepMs: random.below(LONGEST_KEEP_MS) });
        // Half of the callers come back at once, into the same faults.
        if (random.below(2) === 0) await callResume(idempay, call, deadlineMs);
        return call;
      });
    });
    await environment.heal();
    await inParallel(made.length, WIDTH, async (index) => {
      const call = made[index] as PayCall;
      for (let times = 0; times < MOST_RESUMES && isOpen(call); times += 1) {
        await callResume(idempay, call, LAST_DEADLINE_MS);
      }
    });
    const violations = checkClientCalls(made, await processor.charges(), sentAt);
    const own = environment.failures.map((what) => ({
      rule: 'no service ends',
      subject: 'service',
      what,
      history: [],
    }));
    return { violations: [...violations, ...own], tally: tallyOf(made, proxy.counts, environment.kills()) };
  } finally {
    await environment.close();
  }
}

/** A key without a record has expired, and asking again would not change that. */
function isOpen(call: PayCall): boolean {
  const told = lastTold(call);
  return told?.state === 'unknown' && told.record !== 'none';
}

function tallyOf(
  calls: readonly PayCall[],
  faults: ReadonlyMap<string, number>,
  kills: number,
): Record<string, number> {
  const tally: Record<string, number> = { calls: calls.length, kills };
  const count = (name: string) => {
    tally[name] = (tally[name] ?? 0) + 1;
  };
  for (const call of calls) {
    count(`first ${call.told[0]?.state}`);
    count(`in the end ${lastTold(call)?.state}`);
  }
  for (const [name, times] of faults) tally[`proxy: ${name}`] = times;
  return tally;
}
