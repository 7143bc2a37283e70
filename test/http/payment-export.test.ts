import { readFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { expectFirst, givenPaid, untilPaid } from '../../testkit/client/payment-answers.js';
import {
  expectHeadAsGet,
  exportDay,
  exportLines,
  type ShownPayment,
  shownPaymentOf,
} from '../../testkit/client/payment-records.js';
import { requestText } from '../../testkit/client/raw-http.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import type { Service } from '../../testkit/processes/service.js';
import { changeStored, settledPayments } from '../../testkit/protocol/stored-payments.js';
import { pause } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

/** More than two pages of the store. */
const MANY = 1_100;
const WIDTH = 32;
/** Some megabytes of export, on a day of their own. */
const STORED = 20_000;
const STORED_DAY = '2020-02-29';
/** Time enough for a service that does not wait for its readers to read all of it. */
const READ_AHEAD_MS = 500;
const READERS = 20;
/** All exports held in memory would be more than twice as much. */
const READERS_KIB = 75 * 1024;
const EMPTY_DAYS = ['1970-01-01', '2020-02-28', '2020-03-01', '9999-12-31'];

const BAD_DAYS: readonly [what: string, query: string][] = [
  ['missing', ''],
  ['empty', '?day='],
  ['a word', '?day=today'],
  ['a moment', '?day=2026-11-20T00:00:00Z'],
  ['a month', '?day=2026-11'],
  ['on no calendar', '?day=2026-02-30'],
  ['in no leap year', '?day=2027-02-29'],
  ['in no month', '?day=2026-13-01'],
  ['followed by something', '?day=2026-11-20%20'],
  ['without hyphens', '?day=20261120'],
];

describeDeployments('GET /api/payments/export', (deployment) => {
  describe('of payments that are made', () => {
    const shared = shareService(deployment);

    it(`has all of ${MANY} payments of a day, each once, in the order of settling`, async () => {
      const began = new Date();
      const unpaid = await generateKey(shared.url);
      const made = await inParallel(MANY, WIDTH, () => givenPaid(shared.url));
      const exported = await exportSince(shared.url, began);

      const ids = exported.map(({ idempotencyKey, transactionId }) => `${idempotencyKey} ${transactionId}`);
      expect(ids.sort()).toEqual(made.map(({ key, transactionId }) => `${key} ${transactionId}`).sort());
      const settled = exported.map(({ settledAt }) => settledAt as string);
      expect(settled).toEqual([...settled].sort());
      expect(keysOf(exported)).not.toContain(unpaid);
      for (const payment of exported.slice(0, 20)) {
        expect(payment).toEqual(await shownPaymentOf(shared.url, payment.idempotencyKey));
      }
    });

    it('has payments of one day in the order of settling, whatever the order of their keys', async () => {
      const began = new Date();
      const keys: string[] = [];
      for (let count = 0; count < 5; count += 1) keys.push(await generateKey(shared.url));
      const order = [3, 0, 4, 2, 1].map((index) => keys[index] as string);
      for (const key of order) {
        expectFirst(await pay(shared.url, key));
        await untilPast(1);
      }
      expect(keysOf(await exportSince(shared.url, began)).filter((key) => order.includes(key))).toEqual(order);
    });

    it('is empty where nothing was settled', async () => {
      for (const day of EMPTY_DAYS) expect(await exportDay(shared.url, day)).toEqual([]);
    });

    it('answers HEAD as GET, without the body', async () => {
      const headers = ['content-type', 'content-disposition', 'cache-control'];
      await expectHeadAsGet(`${shared.url}/api/payments/export?day=${today()}`, headers);
      expect((await ask(`${shared.url}/api/payments/export`, { method: 'HEAD' })).status).toBe(400);
    });

    it.each(BAD_DAYS)('refuses a day that is %s', async (_what, query) => {
      expectError(await ask(`${shared.url}/api/payments/export${query}`), 400, /^'day' must /);
    });

    it('refuses a day that is given twice, and a parameter that it does not know', async () => {
      const refusal = (query: string) => ask(`${shared.url}/api/payments/export?day=2026-11-20&${query}`);
      expectError(await refusal('day=2026-11-20'), 400, /'day' .*single text/);
      const message = "'procesor' is no query parameter of this path. Use day, processor.";
      expectError(await refusal('procesor=simulated'), 400, message);
    });
  });

  describe('of payments in every state', () => {
    const shared = shareProcessedService(deployment);

    it('has those that are final, and none that is PROCESSING', async () => {
      const { url, processor } = shared();
      const began = new Date();
      const [paid, declined, unclear] = [await generateKey(url), await generateKey(url), await generateKey(url)];
      expectFirst(await pay(url, paid));
      await processor.behave({ declineRate: 1 });
      expectError(await pay(url, declined), 402);
      await processor.behave({ declineRate: 0, refuseWith: 503 });
      expectError(await pay(url, unclear), 504);
      expect(await exportSince(url, began)).toEqual([
        await shownPaymentOf(url, paid),
        await shownPaymentOf(url, declined),
      ]);

      await processor.behave({ refuseWith: null });
      await untilPaid(url, unclear);
      expect(keysOf(await exportSince(url, began))).toEqual([paid, declined, unclear]);
    });

    it('has those of one processor, by the name that a payment shows', async () => {
      const { url } = shared();
      const { key } = await givenPaid(url);
      const name = (await shownPaymentOf(url, key)).processor as string;
      const of = (processor: string) => exportLines(url, today(), `&processor=${encodeURIComponent(processor)}`);
      const all = await exportLines(url, today());
      expect(all.length).toBeGreaterThan(0);
      for (const same of [name, '']) expect(await of(same)).toEqual(all);
      for (const other of ['simulated', `${name}x`, name.toUpperCase(), '%']) expect(await of(other)).toEqual([]);
    });
  });

  describe(`of ${STORED} payments of one day`, () => {
    let stores: Stores;
    let service: Service;
    beforeAll(async () => {
      stores = await deployment.open();
      await (await stores.serve()).stop();
      await changeStored(stores, settledPayments(STORED, Date.parse(`${STORED_DAY}T00:00:00Z`)));
      // A process, whose memory is looked at.
      service = await stores.start();
    });
    afterAll(() => stores?.close());

    it('is complete and in the order of settling, and so are two at once', async () => {
      const [one, other] = await Promise.all([
        exportLines(service.url, STORED_DAY),
        exportLines(service.url, STORED_DAY, '&processor=simulated'),
      ]);
      expect(await exportLines(service.url, STORED_DAY, '&processor=another')).toEqual([]);
      const positions = one.map((line) => {
        const { settledAt, idempotencyKey } = JSON.parse(line) as ShownPayment;
        return `${settledAt} ${idempotencyKey}`;
      });
      expect(new Set(positions).size).toBe(STORED);
      expect(positions.every((position) => position.startsWith(STORED_DAY))).toBe(true);
      expect(positions.join('\n')).toBe(positions.toSorted().join('\n'));
      expect(other.join('\n')).toBe(one.join('\n'));
    });

    /**
     * Bug: on a deployment that reads in the process itself, nothing else was served until an export ended. Cause: its
     * pages followed each other without a turn of the event loop for as long as the client was fast enough. Fix: each
     * page leaves one.
     */
    it('does not keep a payment waiting for its end', async () => {
      let ended = false;
      const exported = ask(`${service.url}/api/payments/export?day=${STORED_DAY}`).finally(() => {
        ended = true;
      });
      await givenPaid(service.url);
      expect(ended, 'the export has ended before the payment').toBe(false);
      expect((await exported).status).toBe(200);
    });

    it('costs little for clients that do not read it, and nothing after they have gone', async () => {
      await exportLines(service.url, STORED_DAY);
      const beforeKiB = await residentKiB(service);
      const clients = await Promise.all(Array.from({ length: READERS }, () => beginExport(service.port)));
      await pause(READ_AHEAD_MS);
      expect((await residentKiB(service)) - beforeKiB, `KiB for ${READERS} clients`).toBeLessThan(READERS_KIB);
      for (const client of clients) client.destroy();

      expect(await exportLines(service.url, STORED_DAY)).toHaveLength(STORED);
      await givenPaid(service.url);
      expect(service.logs.filter(({ level }) => level >= 50)).toEqual([]);
    });
  });
});

/** Everything that was settled since a moment: a test may run through midnight. */
async function exportSince(url: string, began: Date): Promise<ShownPayment[]> {
  const exported: ShownPayment[] = [];
  for (const day of new Set([began.toISOString().slice(0, 10), today()])) exported.push(...(await exportDay(url, day)));
  return exported.filter(({ settledAt }) => (settledAt as string) >= began.toISOString());
}

function today(): string {
  return new Date().toISOString().slice(0, 10);
}

function keysOf(payments: readonly ShownPayment[]): string[] {
  return payments.map(({ idempotencyKey }) => idempotencyKey);
}

/** Asks for the stored day, takes the beginning of the answer, and reads no further. */
function beginExport(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', reject);
    socket.once('data', (beginning) => {
      socket.pause();
      if (beginning.toString().startsWith('HTTP/1.1 200 ')) resolve(socket);
      else reject(new Error(`the export began with ${beginning}`));
    });
    socket.write(requestText(`GET /api/payments/export?day=${STORED_DAY} HTTP/1.1`, []));
  });
}

/** Memory of the process that is really there. */
async function residentKiB({ pid }: Service): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
}
