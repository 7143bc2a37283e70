import { Idempay, IdempayError, type Transaction, UnavailableError, UnknownChangeError } from '@idempay/client';
import { inParallel } from '../concurrency.js';
import type { Deployment } from '../deployments/deployments.js';
import type { Violation } from '../history/history.js';
import { seededRandom } from '../random.js';
import type { FaultyCallsResult } from './faulty-calls.js';
import { openFaultyEnvironment } from './faulty-environment.js';

const WIDTH = 48;
const SHORTEST_DEADLINE_MS = 500;
const LONGEST_DEADLINE_MS = 6_000;
const MOST_ROWS = 20;
const MOST_REPEATS = 20;
const LAST_DEADLINE_MS = 15_000;
/** Longer than the run. */
const SETTINGS = { IDEMPOTENCY_TTL_SECONDS: '3600' };

/** One create with a key of its own. Its rows are from an account of its own, which names it in every list. */
interface Create {
  readonly account: string;
  readonly rows: number;
  told: readonly number[] | 'nothing done' | 'unknown' | IdempayError;
}

/** Creates with keys through everything that can go wrong: alone and in batches, each must be there once or not at all. */
export async function runFaultyCreates(
  deployment: Deployment,
  count: number,
  seed: number,
): Promise<FaultyCallsResult> {
  const random = seededRandom(seed);
  const environment = await openFaultyEnvironment(deployment, random, SETTINGS);
  try {
    const { transactions } = new Idempay({ baseUrl: environment.url, attemptTimeoutMs: 1_500 });

    async function create(wanted: Create, deadlineMs: number): Promise<void> {
      const { account, rows } = wanted;
      const row = { fromAccount: account, toAccount: 'all', amount: '1' };
      const options = { idempotencyKey: account, deadlineMs };
      try {
        if (rows === 1) wanted.told = [(await transactions.create(row, options)).transaction.transactionId];
        else wanted.told = idsOf((await transactions.createBatch(Array(rows).fill(row), options)).transactions);
      } catch (fault) {
        if (!(fault instanceof IdempayError)) throw fault;
        if (fault instanceof UnknownChangeError) wanted.told = 'unknown';
        else wanted.told = fault instanceof UnavailableError ? 'nothing done' : fault;
      }
    }

    let creates: Create[] = [];
    await environment.killingDuring(async () => {
      creates = await inParallel(count, WIDTH, async (index) => {
        const rows = random.below(3) === 0 ? 2 + random.below(MOST_ROWS - 1) : 1;
        const wanted: Create = { account: `create-${index}`, rows, told: 'unknown' };
        await create(wanted, SHORTEST_DEADLINE_MS + random.below(LONGEST_DEADLINE_MS - SHORTEST_DEADLINE_MS));
        return wanted;
      });
    });
    const unknown = creates.filter(({ told }) => told === 'unknown');
    await environment.heal();
    await inParallel(unknown.length, WIDTH, async (index) => {
      const wanted = unknown[index] as Create;
      for (let times = 0; times < MOST_REPEATS && wanted.told === 'unknown'; times += 1)
        await create(wanted, LAST_DEADLINE_MS);
    });
    const kept = new Map<string, number[]>();
    for await (const { fromAccount, transactionId } of transactions.list()) {
      kept.set(fromAccount, [...(kept.get(fromAccount) ?? []), transactionId]);
    }
    const violations = creates.flatMap((wanted) => violationsOf(wanted, kept.get(wanted.account) ?? []));
    const nothing = creates.filter(({ told }) => told === 'nothing done').length;
    const tally = { creates: creates.length, nothing, unknown: unknown.length, kills: environment.kills() };
    return { violations, tally };
  } finally {
    await environment.close();
  }
}

const idsOf = (transactions: readonly Transaction[]) => transactions.map(({ transactionId }) => transactionId);

function violationsOf(wanted: Create, kept: readonly number[]): Violation[] {
  const { account, rows, told } = wanted;
  const broken = (rule: string) => [
    { rule, subject: account, what: `${kept.length} of ${rows} rows`, history: [wanted, kept] },
  ];
  if (told === 'unknown') return broken('everything is settled by a repeat in the end');
  if (told === 'nothing done') return kept.length > 0 ? broken('nothing done: there are no rows') : [];
  if (told instanceof Error) return broken(`a create ends in success or one of its errors: ${told.message}`);
  if (told.length !== rows || `${told}` !== `${kept}`)
    return broken('created: the rows are there once, with these ids');
  return [];
}
