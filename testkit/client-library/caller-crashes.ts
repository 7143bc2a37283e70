import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkClientCalls } from '../checkers/client-calls.js';
import type { Deployment } from '../deployments/deployments.js';
import type { Violation } from '../history/history.js';
import type { ChargeLine } from '../processes/reference-processor.js';
import { spawnProgram } from '../processes/service.js';
import { ROOT } from '../programs.js';
import { seededRandom } from '../random.js';
import { pause } from '../time/until.js';
import { amountOf, lastTold, type PayCall, type Told } from './calls.js';
import { openFaultyEnvironment } from './faulty-environment.js';

const CALLER = join(ROOT, 'testkit', 'client-library', 'crashing-caller.mjs');
const LONGEST_LIFE_MS = 500;
/** Longer than a caller is ever down. */
const KEY_LIFE_SECONDS = 600;

export interface CallerCrashesResult {
  readonly violations: readonly Violation[];
  readonly tally: Readonly<Record<string, number>>;
}

interface JournalLine {
  readonly number: number;
  readonly event: 'begun' | 'key' | 'resumed' | 'ended';
  readonly key?: string;
  readonly told?: Told;
}

/**
 * A caller that is killed again and again while it pays through a faulty network. It goes on from the keys that it kept, or by the
 * reference of the order, for which it keeps nothing.
 */
export async function runCallerCrashes(
  deployment: Deployment,
  crashes: number,
  seed: number,
  by: 'key' | 'reference' = 'key',
): Promise<CallerCrashesResult> {
  const random = seededRandom(seed);
  const settings = { IDEMPOTENCY_TTL_SECONDS: `${KEY_LIFE_SECONDS}` };
  const environment = await openFaultyEnvironment(deployment, random, settings);
  const folder = await mkdtemp(join(tmpdir(), 'idempay-caller-'));
  const journal = join(folder, 'journal.ndjson');
  const start = (more: Record<string, string> = {}) =>
    spawnProgram(CALLER, {
      SERVICE_URL: environment.url,
      JOURNAL: journal,
      ...(by === 'reference' && { BY_REFERENCE: '1' }),
      ...more,
    });
  try {
    await environment.killingDuring(async () => {
      for (let killed = 0; killed < crashes; killed += 1) {
        const { child, ended } = start();
        await Promise.race([once(child.stdout, 'data'), ended]);
        await pause(random.below(LONGEST_LIFE_MS));
        child.kill('SIGKILL');
        const { signal } = await ended;
        if (signal !== 'SIGKILL') throw new Error('the caller ended by itself');
      }
    });
    await environment.heal();
    const { code } = await start({ LAST: '1' }).ended;
    if (code !== 0) throw new Error(`the last caller ended with ${code}`);
    const { calls, resumed } = callsIn(readFileSync(journal, 'utf8'));
    const charges = await environment.processor.charges();
    if (by === 'reference') for (const call of calls) call.keys.push(...keysOf(call, charges));
    const violations = checkClientCalls(calls, charges, new Map());
    const tally: Record<string, number> = { crashes, kills: environment.kills(), calls: calls.length, resumed };
    for (const call of calls) {
      const name = lastTold(call)?.state ?? 'open';
      tally[name] = (tally[name] ?? 0) + 1;
    }
    return { violations, tally };
  } finally {
    await environment.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** The key of an order as the processor has it, or as the caller was told: the check is that there is one. */
function keysOf({ amount, told }: PayCall, charges: readonly ChargeLine[]): string[] {
  const charged = charges.filter((line) => line.amount === amount).map(({ reference }) => reference);
  return [...new Set([...charged, ...told.flatMap((each) => ('key' in each ? [each.key] : []))])];
}

/** `resumed`: how often a caller went on with a key that was kept. */
function callsIn(journal: string): { calls: PayCall[]; resumed: number } {
  const calls = new Map<number, PayCall>();
  let resumed = 0;
  for (const line of journal.split('\n').slice(0, -1)) {
    const { number, event, key, told } = JSON.parse(line) as JournalLine;
    if (event === 'resumed') resumed += 1;
    const call = calls.get(number) ?? { amount: amountOf(number), keys: [], keptAt: 0, told: [] };
    if (key !== undefined) call.keys.push(key);
    if (told) call.told.push(told);
    calls.set(number, call);
  }
  return { calls: [...calls.values()], resumed };
}
