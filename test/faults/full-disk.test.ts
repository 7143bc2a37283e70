import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { finishPayment, verifyFinished, verifyJournal } from '../../testkit/checkers/verify-journal.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, pay } from '../../testkit/client/http-client.js';
import { LoadClients, PAYMENT, readInto } from '../../testkit/client/load-clients.js';
import {
  changeStatus,
  deleteTransaction,
  listTransactions,
  postTransaction,
} from '../../testkit/client/transactions.js';
import { LoadJournal } from '../../testkit/history/load-journal.js';
import type { PaymentEntry } from '../../testkit/history/payment-journal.js';
import { DELETE, type TransactionEntry } from '../../testkit/history/transaction-journal.js';
import { type Service, startService } from '../../testkit/processes/service.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { mountSmallDisk, type SmallDisk } from '../../testkit/servers/small-disk.js';
import { until } from '../../testkit/time/until.js';

/** Holds the database and a write-ahead log several times over, and is filled in an instant. */
const DISK_MEGABYTES = 32;
const CLIENTS = 8;
/** Short, so that a payment that a full disk left between claim and settlement is soon taken over. */
const LOCK_TTL_SECONDS = '2';
/** Payments that wait a moment, so that the disk also fills between claim and settlement. */
const PROCESSOR_DELAY_MS = '10';
const ENOUGH_PAYMENTS = 300;
/** Untouched keys and transactions for the probes, each of which uses up a key and two transactions. */
const RESERVE = 400;
const DEADLINE_MS = 20_000;
const TEST_TIMEOUT_MS = 120_000;

describe('the embedded service on a full disk', () => {
  let disk: SmallDisk;
  let service: Service;
  let journal: LoadJournal;
  let keys: PaymentEntry[];
  let transactions: TransactionEntry[];

  beforeEach(async () => {
    disk = await mountSmallDisk(DISK_MEGABYTES);
    service = await start();
    journal = new LoadJournal();
  });
  afterEach(async () => {
    await service?.kill();
    await disk.remove();
  });

  const start = () => startService({ DATA_DIR: disk.folder, LOCK_TTL_SECONDS, PROCESSOR_DELAY_MS }, disk.launcher);

  it(
    'refuses writes with 503, goes on reading and repeating, loses nothing, and writes again once there is space',
    async () => {
      const random = seededRandom(seedFrom('DISK_SEED'));
      const clients = new LoadClients(CLIENTS, journal, random.fork());
      await reserve();
      const stop = new AbortController();
      const load = clients.run(service.url, stop.signal);
      await until('there are payments', DEADLINE_MS, () => journal.payments.finished().length > ENOUGH_PAYMENTS);

      await fillUntilWritesAreRefused();
      await expectReads();
      stop.abort();
      await load;
      expect(await Promise.race([service.ended, 'up'])).toBe('up');
      const refused = journal.payments.unresolved();
      expect(refused.length).toBeGreaterThan(0);

      await disk.free();
      await until('every kind of write works again', DEADLINE_MS, async () => {
        const answers = await oneOfEachWrite();
        return answers.every((answer) => answer.status < 300);
      });
      journal.mayBeUnavailable = false;
      for (const entry of refused) await finishPayment(service.url, journal, entry);
      expect(journal.payments.unresolved()).toEqual([]);

      const stopAgain = new AbortController();
      const before = journal.payments.finished().length;
      const loadAgain = clients.run(service.url, stopAgain.signal);
      await until('payments go on', DEADLINE_MS, () => journal.payments.finished().length > before + 100);
      stopAgain.abort();
      await service.kill();
      await loadAgain;

      service = await start();
      await verifyJournal(service.url, { journal, random, sample: Number.POSITIVE_INFINITY });
      console.log(`${refused.length} payments refused by the full disk; ${journal.summary()}`);
      journal.expectNoViolations();
    },
    TEST_TIMEOUT_MS,
  );

  it(
    'is told healthy: the store is there, whatever room it has',
    async () => {
      const clients = new LoadClients(CLIENTS, journal, seededRandom(seedFrom('DISK_SEED')));
      await reserve();
      const stop = new AbortController();
      const load = clients.run(service.url, stop.signal);
      await fillUntilWritesAreRefused();
      // Asked often, because the question may travel together with writes that fail.
      for (let time = 0; time < 30; time += 1) {
        const health = await ask(`${service.url}/api/health/redis`);
        expect([health.status, health.json()]).toMatchObject([200, { status: 'UP' }]);
        expect((await ask(`${service.url}/api/health/redis/stats`)).status).toBe(200);
      }
      stop.abort();
      await load;
    },
    TEST_TIMEOUT_MS,
  );

  /** On return every kind of write has just been refused, and the load goes on. */
  async function fillUntilWritesAreRefused(): Promise<void> {
    journal.mayBeUnavailable = true;
    await until('every kind of write is refused', DEADLINE_MS, async () => {
      await disk.fill();
      const answers = await oneOfEachWrite();
      for (const answer of answers) if (answer.status === 503) expectError(answer, 503);
      return answers.every((answer) => answer.status === 503);
    });
  }

  async function reserve(): Promise<void> {
    keys = [];
    transactions = [];
    for (let index = 0; index < RESERVE; index += 1) {
      const key = journal.payments.issued(await ask(`${service.url}/api/server-generated/generate-key`));
      if (key) keys.push(key);
      const { entry } = await create();
      if (entry) transactions.push(entry);
    }
    expect([keys.length, transactions.length]).toEqual([RESERVE, RESERVE]);
  }

  async function create(): Promise<{ answer: Answer; entry: TransactionEntry | undefined }> {
    const draft = journal.transactions.draft(1);
    const { fromAccount, toAccount, amount } = draft;
    const answer = await postTransaction(service.url, { fromAccount, toAccount, amount });
    return { answer, entry: journal.transactions.created(draft, answer) };
  }

  /** The five writes one after the other, with a key and transactions that nobody else touches. */
  async function oneOfEachWrite(): Promise<Answer[]> {
    const { url } = service;
    const key = keys.pop();
    const [changed, deleted] = [transactions.pop(), transactions.pop()];
    if (!key || !changed || !deleted) throw new Error('the reserve is used up');
    const { payments, transactions: kept } = journal;
    const generated = await ask(`${url}/api/server-generated/generate-key`);
    payments.issued(generated);
    return [
      generated,
      await payments.attempt(key, () => pay(url, key.key, PAYMENT)),
      (await create()).answer,
      await kept.change(changed, 'FLAGGED', () => changeStatus(url, changed.seen.transactionId, 'FLAGGED')),
      await kept.change(deleted, DELETE, () => deleteTransaction(url, deleted.seen.transactionId)),
    ];
  }

  /** Nothing that only reads may suffer: repeats, payment-status, records, single transactions, the list. */
  async function expectReads(): Promise<void> {
    for (const entry of journal.payments.finished().slice(0, 100)) await verifyFinished(service.url, journal, entry);
    for (const entry of transactions.slice(0, 100)) await readInto(journal, service.url, entry);
    expect((await listTransactions(service.url)).status).toBe(200);
    journal.expectNoViolations();
  }
});
