import { checkRestored, type RestoredEvidence } from '../../testkit/checkers/restored.js';
import { Load } from '../../testkit/client/load.js';
import { gate, inParallel } from '../../testkit/concurrency.js';
import { History, type Target, type Violation } from '../../testkit/history/history.js';
import { isPaid, type KeyHistory } from '../../testkit/history/payments.js';
import type { TransactionHistory } from '../../testkit/history/transactions.js';
import type { SupervisedService } from '../../testkit/processes/supervised-service.js';
import type { Random } from '../../testkit/random.js';
import type { Restore } from '../../testkit/servers/postgres-backups.js';
import { pause, until } from '../../testkit/time/until.js';
import type { Environment } from './environment.js';
import { LEASE_MS, PROCESSOR_TIMEOUT_MS } from './fault.js';

const CLIENTS = { payments: 10, transactions: 6 };
/** Payments that have an outcome before the backup, and as many after it: those are lost. */
const PAYMENTS = 20;
/** Transactions that are created after the backup, and not deleted again. */
const CREATED = 3;
/** High enough that some of the lost orders were paid at a later attempt. */
const DECLINE_RATE = 0.4;
const PAID_DEADLINE_MS = 60_000;
/** An order may have to wait until no charge of before can be on its way, and for recovery. */
const ANSWERED_DEADLINE_MS = 30_000;
const ASKED_EVERY_MS = 100;
const MOST_CHECKED = 100;
const TAGS_OF_A_LIST = 4;
const CREATES = 12;
const WIDTH = 12;

type Rest = Pick<Environment, 'services' | 'processor' | 'record' | 'settings'> & { readonly random: Random };

interface RestoreOptions {
  readonly backUp: () => Promise<Restore>;
  /** From the backup on, the account at the processor has another name, which no row of the backup has. */
  readonly isRenamed: boolean;
}

export interface Lost {
  transactions: number;
  payments: number;
  /** Orders among them that were paid at a later attempt. */
  laterAttempts: number;
}

/**
 * The database is backed up under load, which goes on; then all services are killed, the database is set back, and they start again.
 * Returns what breaks a promise, and counts what the backup lacks.
 */
export async function restoreUnderLoad(
  { backUp, isRenamed }: RestoreOptions,
  rest: Rest,
  lost: Lost,
): Promise<Violation[]> {
  const { services, processor, settings, random } = rest;
  const history = new History(services);
  const load = new Load(history, random.fork(), { withOrders: true });
  const { opened: restored, open: letStart } = gate();
  await processor.behave({ declineRate: DECLINE_RATE });
  try {
    const { restore, formerNames } = await load.during(CLIENTS, async () => {
      const { finished } = load.payments;
      const untilPaid = (count: number) => until(`${count} payments`, PAID_DEADLINE_MS, () => finished.length >= count);
      await untilPaid(PAYMENTS);
      const restoreLater = await backUp();
      const created = history.transactions.length;
      await untilPaid(finished.length + PAYMENTS);
      const former = [settings.PROCESSOR_FORMER_NAMES, nameOf(settings)].filter(Boolean).join(',');
      if (isRenamed) {
        settings.PROCESSOR_ACCOUNT = `account-${random.below(1_000_000)}`;
        // Nobody has said yet that this account is any other one.
        delete settings.PROCESSOR_FORMER_NAMES;
        await startAgain(services);
        await untilPaid(finished.length + PAYMENTS);
      }
      await until(`${CREATED} transactions`, PAID_DEADLINE_MS, () => {
        return history.transactions.slice(created).filter(isThere).length >= CREATED;
      });
      await Promise.all(services.map((service) => service.killUntil(restored)));
      return { restore: restoreLater, formerNames: former };
    });
    await restore();
    letStart();
    await Promise.all(services.map((service) => service.up()));
    const kept = await rest.record.paymentKeys();
    const tried = history.keys.filter(({ exchanges }) => exchanges.length > 0);
    const missing = tried.filter(({ key }) => !kept.has(key));
    lost.payments += missing.filter(({ exchanges }) => exchanges.some(({ outcome }) => outcome)).length;
    lost.laterAttempts += missing.filter(isPaidLater).length;
    const violations: Violation[] = [];
    if (isRenamed) {
      violations.push(...(await askTooEarly(load, missing, rest)));
      settings.PROCESSOR_FORMER_NAMES = formerNames;
      await startAgain(services);
    }
    return [...violations, ...(await examine(load, { tried, missing }, rest, lost))];
  } finally {
    letStart();
    history.close();
  }
}

const nameOf = ({ PROCESSOR_URL: url, PROCESSOR_ACCOUNT: account }: Rest['settings']) =>
  `${url}?${account === undefined ? 'no-user' : `account=${account}`}`;

async function startAgain(services: readonly SupervisedService[]): Promise<void> {
  await Promise.all(services.map((service) => service.kill()));
  await Promise.all(services.map((service) => service.up()));
}

/** Nobody asked to delete it. */
const isThere = ({ accesses }: TransactionHistory) => accesses.every(({ input }) => input.what !== 'delete');

const isPaidLater = ({ order, exchanges }: KeyHistory) =>
  order !== undefined && order.attempt > 1 && exchanges.some(({ outcome }) => outcome !== undefined && isPaid(outcome));

/**
 * Before anybody said that the present processor knows what the former one was sent: nothing may be charged for a row that is missing.
 * Redis may know an outcome.
 */
async function askTooEarly(
  { payments }: Load,
  missing: readonly KeyHistory[],
  { services, processor, random }: Rest,
): Promise<Violation[]> {
  const before = (await processor.charges()).length;
  // After an adoption the service sends nothing for any missing row for this time, so an earlier request would show nothing.
  await pause(LEASE_MS + PROCESSOR_TIMEOUT_MS);
  await eachOf(missing.slice(-MOST_CHECKED), (key) => payments.pay(key, random.pick(services)));
  const charged = (await processor.charges()).slice(before);
  const rule = 'nothing is sent to a processor that cannot know what was lost';
  return charged.map((charge) => ({ rule, subject: charge.reference, what: 'charged', history: [charge] }));
}

interface Tried {
  readonly tried: readonly KeyHistory[];
  /** Without a row. */
  readonly missing: readonly KeyHistory[];
}

/** Nothing else happens meanwhile. */
async function examine(
  { history, payments }: Load,
  { tried, missing }: Tried,
  rest: Rest,
  lost: Lost,
): Promise<Violation[]> {
  const { services, processor, record, random } = rest;
  const rows = await record.transactions();
  const kept = new Set(rows.map(({ id }) => id));
  lost.transactions += history.transactions.filter((created) => !kept.has(created.id) && isThere(created)).length;

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
  const answers: RestoredEvidence['answers'][number][] = [];
  const pay = async (key: KeyHistory) => {
    const { status } = await payments.pay(key, random.pick(services));
    if (status === 200) answers.push({ key: key.key, ...moneyOf(key) });
    return status;
  };
  // By orders of another amount first: whatever is answered as paid must have been charged.
  const orders = missing.filter(({ order }) => order).slice(-MOST_CHECKED);
  await eachOf(shuffled(orders, random), async (key, index) => {
    if (index % 2 === 0) await pay({ ...key, amount: `1${key.amount}`, exchanges: [] });
  });
  // Any process, twice: a payment that is charged again would be charged by then.
  for (const _ of ['first', 'second']) await eachOf(shuffled(tried.slice(-MOST_CHECKED), random), pay);
  const charges = await processor.charges();
  const paidOrders = charges.filter(({ status, order }) => status === 'succeeded' && order !== undefined);
  const unanswered: string[] = [];
  await eachOf(shuffled(orders, random), async (key) => {
    const charge = paidOrders.find(({ reference }) => reference === key.key);
    if (!charge) return;
    // A lost row may have been charged with the other amount by then.
    const asked: KeyHistory = { ...key, ...moneyOf(charge), exchanges: [] };
    await until('an answer', ANSWERED_DEADLINE_MS, async () => {
      if ((await pay(asked)) === 200) return true;
      await pause(ASKED_EVERY_MS);
      return false;
    }).catch(() => unanswered.push(`${key.key}: ${JSON.stringify(asked.exchanges.at(-1))}`));
  });
  return [...history.violations, ...checkRestored({ rows, reads, lists, ids, charges, answers, unanswered })];
}

const moneyOf = ({ amount, currency }: Pick<KeyHistory, 'amount' | 'currency'>) => ({ amount, currency });

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

function eachOf<T>(items: readonly T[], work: (item: T, index: number) => Promise<unknown>): Promise<unknown> {
  return inParallel(items.length, WIDTH, (index) => work(items[index] as T, index));
}

/** Later attempts before earlier ones too. */
function shuffled<T>(items: readonly T[], random: Random): T[] {
  return items
    .map((item) => ({ item, at: random.fraction() }))
    .sort((one, other) => one.at - other.at)
    .map(({ item }) => item);
}
