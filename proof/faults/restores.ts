import { checkRestored, type RestoredEvidence } from '../../testkit/checkers/restored.js';
import { Load } from '../../testkit/client/load.js';
import { gate, inParallel } from '../../testkit/concurrency.js';
import { History, type Target, type Violation } from '../../testkit/history/history.js';
import type { TransactionHistory } from '../../testkit/history/transactions.js';
import type { ReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { SupervisedService } from '../../testkit/processes/supervised-service.js';
import type { Random } from '../../testkit/random.js';
import type { BackUp } from '../../testkit/servers/postgres-backups.js';
import { until } from '../../testkit/time/until.js';
import type { PostgresUnderFault } from './postgres-under-fault.js';

const CLIENTS = { payments: 10, transactions: 6 };
/** Payments that have an outcome before the backup, and as many after it: those are lost. */
const PAYMENTS = 20;
/** Transactions that are created after the backup, and not deleted again. */
const CREATED = 3;
const PAID_DEADLINE_MS = 60_000;
const MOST_CHECKED = 100;
const TAGS_OF_A_LIST = 4;
const CREATES = 12;
const WIDTH = 12;

interface Rest {
  readonly services: readonly SupervisedService[];
  readonly processor: ReferenceProcessor;
  readonly postgres: PostgresUnderFault;
  readonly random: Random;
}

export interface Lost {
  transactions: number;
  payments: number;
}

/**
 * The database is backed up under load, which goes on; then all services are killed, the database is set back, and they start again.
 * Returns what breaks a promise, and counts what the backup lacks.
 */
export async function restoreUnderLoad(backUp: BackUp, rest: Rest, lost: Lost): Promise<Violation[]> {
  const { services, postgres, random } = rest;
  const history = new History(services);
  const load = new Load(history, random.fork(), { withOrders: true });
  const { opened: restored, open: letStart } = gate();
  try {
    const restore = await load.during(CLIENTS, async () => {
      const { finished } = load.payments;
      const untilPaid = (count: number) => until(`${count} payments`, PAID_DEADLINE_MS, () => finished.length >= count);
      await untilPaid(PAYMENTS);
      const restoreLater = await postgres.backUp(backUp);
      const created = history.transactions.length;
      await Promise.all([
        untilPaid(finished.length + PAYMENTS),
        until(`${CREATED} transactions`, PAID_DEADLINE_MS, () => {
          return history.transactions.slice(created).filter(isThere).length >= CREATED;
        }),
      ]);
      await Promise.all(services.map((service) => service.killUntil(restored)));
      return restoreLater;
    });
    await restore();
    letStart();
    await Promise.all(services.map((service) => service.up()));
    return await examine(load, rest, lost);
  } finally {
    letStart();
    history.close();
  }
}

/** Nobody asked to delete it. */
const isThere = ({ accesses }: TransactionHistory) => accesses.every(({ input }) => input.what !== 'delete');

/** Nothing else happens meanwhile. */
async function examine({ history, payments }: Load, rest: Rest, lost: Lost): Promise<Violation[]> {
  const { services, processor, postgres, random } = rest;
  const rows = await postgres.transactions();
  const kept = new Set(rows.map(({ id }) => id));
  lost.transactions += history.transactions.filter((created) => !kept.has(created.id) && isThere(created)).length;
  const paid = await postgres.paymentKeys();
  const tried = history.keys.filter(({ exchanges }) => exchanges.length > 0);
  lost.payments += tried.filter(
    ({ key, exchanges }) => exchanges.some((each) => each.outcome) && !paid.has(key),
  ).length;

  const reads: RestoredEvidence['reads'][number][] = [];
  const lists: RestoredEvidence['lists'][number][] = [];
  for (const to of services) {
    // The second read is a hit of the cache, if there is one.
    for (const _ of ['first', 'second']) {
      await eachOf(history.transactions.slice(-MOST_CHECKED), async ({ id }) => {
        const { status, text } = await history.send(to, `/api/transactions/${id}`);
        if (status === 200) reads.push({ id, status: JSON.parse(text).status, at: to.name });
        else if (status === 404) reads.push({ id, status: 'gone', at: to.name });
        else history.unexpected(`${id}`, { status, text, headers: {}, sentAt: 0, endedAt: 0 });
      });
    }
    await eachOf(history.lists, async ({ account, accesses }) => {
      const tags = new Set(accesses.flatMap(({ completed }) => completed?.output ?? []));
      for (const tag of [...tags].slice(-TAGS_OF_A_LIST)) {
        const headers = { 'If-None-Match': `"${tag}"` };
        const { status } = await history.send(to, `/api/transactions?from=${account}`, { headers });
        if (status === 200 || status === 304) lists.push({ account, tag, isConfirmed: status === 304 });
      }
    });
  }
  const ids = [...history.transactions.map(({ id }) => id), ...(await createSome(history, services))];
  // Any process, twice: a payment that is charged again would be charged by then.
  for (const _ of ['first', 'second']) {
    await eachOf(tried.slice(-MOST_CHECKED), async (key) => {
      await payments.pay(key, random.pick(services));
    });
  }
  const charges = (await processor.charges()).map(({ reference }) => reference);
  return [...history.violations, ...checkRestored({ rows, reads, lists, ids, charges })];
}

async function createSome(history: History, services: readonly Target[]): Promise<number[]> {
  const created: number[] = [];
  await eachOf(Array.from({ length: CREATES * services.length }), async (_, index) => {
    const to = services[index % services.length] as Target;
    const headers = { 'Content-Type': 'application/json' };
    const body = '{"fromAccount":"after","toAccount":"the restore","amount":1}';
    const { status, text } = await history.send(to, '/api/transactions', { method: 'POST', headers, body });
    if (status === 201) created.push(JSON.parse(text).transactionId);
  });
  return created;
}

function eachOf<T>(items: readonly T[], work: (item: T, index: number) => Promise<void>): Promise<unknown> {
  return inParallel(items.length, WIDTH, (index) => work(items[index] as T, index));
}
