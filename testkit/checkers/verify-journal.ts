import { type Answer, pay, paymentStatus, transactionIdOf } from '../client/http-client.js';
import { PAYMENT, readInto } from '../client/load-clients.js';
import { KEY_GENERATED, keyRecord } from '../client/payment-answers.js';
import { idsOf, listTag, listTransactions, quoted, type Transaction } from '../client/transactions.js';
import { inParallel } from '../concurrency.js';
import type { LoadJournal } from '../history/load-journal.js';
import type { PaymentEntry } from '../history/payment-journal.js';
import type { Random } from '../random.js';
import { until } from '../time/until.js';

const WIDTH = 16;
/** Far longer than any lease in these tests, so that a payment that stays in progress is a failure, not a slow machine. */
const FINISH_DEADLINE_MS = 15_000;

export interface Verification {
  journal: LoadJournal;
  random: Random;
  /** At most so many of each kind are read one by one; the list is always read whole, and the unresolved all finished. */
  sample: number;
}

/**
 * Holds a service at rest against everything the journal has: first what is read, then the payments without an outcome
 * are repeated until each has one. Whatever is wrong is added to the journal's violations.
 */
export async function verifyJournal(url: string, { journal, random, sample }: Verification): Promise<void> {
  const { payments, transactions } = journal;
  const some = <T>(items: T[]) => sampleOf(items, sample, random);

  await verifyList(url, journal);
  await each(some(transactions.live()), (entry) => readInto(journal, url, entry));
  await each(some(transactions.deleted()), (entry) => readInto(journal, url, entry));
  await each(some(payments.unused()), (entry) => verifyUnused(url, journal, entry));
  await each(some(payments.finished()), (entry) => verifyFinished(url, journal, entry));
  await each(payments.unresolved(), async (entry) => {
    await finishPayment(url, journal, entry);
    await verifyFinished(url, journal, entry);
  });
}

/** Repeats a payment with its key until it is told what became of it. */
export async function finishPayment(url: string, journal: LoadJournal, entry: PaymentEntry): Promise<void> {
  await until(`an outcome of payment ${entry.key}`, FINISH_DEADLINE_MS, async () => {
    const answer = await journal.payments.attempt(entry, () => pay(url, entry.key, PAYMENT));
    return answer.status !== 409;
  });
}

/** The list is read whole with its tag, and the tag is asked for again (spec 4.3 rules 2 and 3). */
export async function verifyList(url: string, journal: LoadJournal): Promise<void> {
  const { violations } = journal;
  const answer = await listTransactions(url);
  if (answer.status !== 200) return void violations.push(`the list answered ${answer.status}: ${answer.text}`);
  const ids = idsOf(answer);
  if (ids.some((id, index) => index > 0 && id <= (ids[index - 1] as number))) {
    violations.push('the ids of the list do not rise');
  }
  const tag = quoted(listTag(ids));
  if (answer.headers.etag !== tag) {
    violations.push(`the list of ${ids.length} has the tag ${answer.headers.etag}, not ${tag}`);
  }
  const again = await listTransactions(url, {}, { 'If-None-Match': tag });
  if (again.status !== 304) violations.push(`the list answered ${again.status} to its own tag`);
  journal.transactions.listed(answer.json<Transaction[]>());
}

/** A key that was acknowledged and never used is there to be used. */
async function verifyUnused(url: string, journal: LoadJournal, entry: PaymentEntry): Promise<void> {
  const record = await keyRecord(url, entry.key);
  if (record.status !== 200 || record.json<{ value: string }>().value !== KEY_GENERATED) {
    journal.violations.push(`the unused key ${entry.key} shows ${record.status}: ${record.text}`);
  }
}

/** A payment whose outcome was told once tells the same in all three places, and is never processed again. */
export async function verifyFinished(url: string, journal: LoadJournal, entry: PaymentEntry): Promise<void> {
  const { payments } = journal;
  const status = await paymentStatus(url, entry.key);
  payments.sawId(entry, shownId(status), `payment-status (${status.status}: ${status.text})`);
  const record = await keyRecord(url, entry.key);
  const value = record.status === 200 ? record.json<{ value: string }>().value : undefined;
  payments.sawId(entry, value, `the record (${record.status}: ${record.text})`);
  const repeat = await payments.attempt(entry, () => pay(url, entry.key, PAYMENT));
  if (repeat.status !== 200 || repeat.headers['idempotent-replayed'] !== 'true') {
    journal.violations.push(`the repeat of finished payment ${entry.key} answered ${repeat.status}: ${repeat.text}`);
  }
}

function shownId(answer: Answer): string | undefined {
  return answer.status === 200 ? transactionIdOf(answer) : undefined;
}

async function each<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  await inParallel(items.length, WIDTH, (index) => work(items[index] as T));
}

function sampleOf<T>(items: T[], size: number, random: Random): T[] {
  if (items.length <= size) return items;
  // A random stretch of the items and always the last ones: what was acknowledged just before the end is most at risk.
  const recent = items.slice(-Math.ceil(size / 2));
  const older = Array.from({ length: Math.floor(size / 2) }, () => random.pick(items));
  return [...new Set([...older, ...recent])];
}
