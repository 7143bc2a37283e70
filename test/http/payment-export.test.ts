import { readFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay, transactionIdOf } from '../../testkit/client/http-client.js';
import { expectFirst } from '../../testkit/client/payment-answers.js';
import { exportDay, exportLines, type ShownPayment, shownPaymentOf } from '../../testkit/client/payment-records.js';
import { requestText } from '../../testkit/client/raw-http.js';
import { inParallel } from '../../testkit/concurrency.js';
import { type Deployment, describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
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
const EMPTY_DAYS = ['1970-01-01', '2020-02-28', '2020-03-01', '9999-12-31'];

describeDeployments('GET /api/payments/export', (deployment) => {
  describe('of payments that are made', () => {
    const shared = shareService(deployment);

    it(`tells all of ${MANY} payments of a day, each once, in the order of settling`, async () => {
      const began = new Date();
      const unpaid = await generateKey(shared.url);
      const ids = await inParallel(MANY, WIDTH, async () => {
        const key = await generateKey(shared.url);
        return [key, expectFirst(await pay(shared.url, key))] as const;
      });
      const exported = await exportSince(shared.url, began);

      expect(exported.map(({ idempotencyKey, transactionId }) => [idempotencyKey, transactionId]).sort()).toEqual(
        [...ids].sort(),
      );
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
      const exported = keysOf(await exportSince(shared.url, began));
      expect(exported.filter((key) => order.includes(key))).toEqual(order);
    });

    it.each(EMPTY_DAYS)('is empty where nothing was settled: %s', async (day) => {
      const answer = await ask(`${shared.url}/api/payments/export?day=${day}`);
      expect(answer.text).toBe('');
      expect(await exportDay(shared.url, day)).toEqual([]);
    });

    it('answers HEAD as GET, without the body', async () => {
      const url = `${shared.url}/api/payments/export?day=${today()}`;
      const { headers } = await ask(url);
      const head = await ask(url, { method: 'HEAD' });
      expect(head.status).toBe(200);
      expect(head.text).toBe('');
      for (const name of ['content-type', 'content-disposition', 'cache-control', 'content-length']) {
        expect(head.headers[name], name).toBe(headers[name]);
      }
      expect((await ask(`${shared.url}/api/payments/export`, { method: 'HEAD' })).status).toBe(400);
    });

    it('refuses a parameter that it does not know, and names it and those that it does', async () => {
      const answer = await ask(`${shared.url}/api/payments/export?day=${EMPTY_DAYS[0]}&procesor=simulated`);
      expectError(answer, 400, "'procesor' is no query parameter of this path. Use day, processor.");
    });

    it('does not look at Prefer', async () => {
      const url = `${shared.url}/api/payments/export?day=${EMPTY_DAYS[0]}`;
      const answer = await ask(url, { headers: { Prefer: 'wait=10' } });
      expect(answer.status).toBe(200);
      expect(answer.headers).not.toHaveProperty('preference-applied');
    });

    it.each([
      ['missing', ''],
      ['empty', '?day='],
      ['no day', '?day=today'],
      ['a moment', '?day=2026-11-20T00:00:00Z'],
      ['a month', '?day=2026-11'],
      ['on no calendar', '?day=2026-02-30'],
      ['in no leap year', '?day=2027-02-29'],
      ['in no month', '?day=2026-13-01'],
      ['followed by something', '?day=2026-11-20%20'],
      ['without hyphens', '?day=20261120'],
    ])('refuses a day that is %s', async (_what, query) => {
      expectError(await ask(`${shared.url}/api/payments/export${query}`), 400, /^'day' must /);
    });

    it('refuses a day that is given twice', async () => {
      const answer = await ask(`${shared.url}/api/payments/export?day=2026-11-20&day=2026-11-20`);
      expectError(answer, 400, /'day' .*single text/);
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
      expect(transactionIdOf(await pay(url, unclear))).toBeDefined();
      expect(keysOf(await exportSince(url, began))).toEqual([paid, declined, unclear]);
    });

    it('has those of one processor, by the name that a payment shows', async () => {
      const { url } = shared();
      const key = await generateKey(url);
      expectFirst(await pay(url, key));
      const { processor: name } = await shownPaymentOf(url, key);
      const of = (processor: string) => exportLines(url, today(), `&processor=${encodeURIComponent(processor)}`);
      const all = await exportLines(url, today());
      expect(all.length).toBeGreaterThan(0);
      expect(await of(name as string)).toEqual(all);
      expect(await of('')).toEqual(all);
      for (const other of ['simulated', `${name}x`, (name as string).toUpperCase(), '%'])
        expect(await of(other)).toEqual([]);
    });
  });

  describe(`of ${STORED} payments of one day`, () => {
    const shared = shareStoredPayments(deployment);

    it('is complete and in the order of settling, and so are two at once', async () => {
      const [one, other] = await Promise.all([
        exportLines(shared.url, STORED_DAY),
        exportLines(shared.url, STORED_DAY, '&processor=simulated'),
      ]);
      expect(await exportLines(shared.url, STORED_DAY, '&processor=another')).toEqual([]);
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
      const exported = ask(`${shared.url}/api/payments/export?day=${STORED_DAY}`).finally(() => {
        ended = true;
      });
      expectFirst(await pay(shared.url, await generateKey(shared.url)));
      expect(ended, 'the export has ended before the payment').toBe(false);
      expect((await exported).status).toBe(200);
    });

    it('costs little for clients that do not read it, and nothing after they have gone', async () => {
      await exportLines(shared.url, STORED_DAY);
      const beforeKiB = await residentKiB(shared.service);
      const clients = await Promise.all(Array.from({ length: 40 }, () => beginExport(shared.service)));
      await pause(READ_AHEAD_MS);
      const grownKiB = (await residentKiB(shared.service)) - beforeKiB;
      // 40 exports held in memory would be more than twice as much.
      expect(grownKiB, 'KiB for 40 clients').toBeLessThan(150 * 1024);
      for (const client of clients) client.destroy();

      expect(await exportLines(shared.url, STORED_DAY)).toHaveLength(STORED);
      const key = await generateKey(shared.url);
      expectFirst(await pay(shared.url, key));
      expect(shared.service.logs.filter(({ level }) => level >= 50)).toEqual([]);
    });
  });
});

/** A service whose store was given payments of one day before it started. */
function shareStoredPayments(deployment: Deployment): { readonly url: string; readonly service: Service } {
  let stores: Stores | undefined;
  let service: Service | undefined;
  beforeAll(async () => {
    stores = await deployment.open();
    await (await stores.start()).stop();
    await changeStored(stores, settledPayments(STORED, Date.parse(`${STORED_DAY}T00:00:00Z`)));
    service = await stores.start();
  });
  afterAll(() => stores?.close());
  return {
    get service() {
      if (!service) throw new Error('the service is not started yet');
      return service;
    },
    get url() {
      return this.service.url;
    },
  };
}

/** Everything that was settled since a moment: a test may run through midnight. */
async function exportSince(url: string, began: Date): Promise<ShownPayment[]> {
  const days = new Set([began.toISOString().slice(0, 10), today()]);
  const exported: ShownPayment[] = [];
  for (const day of days) exported.push(...(await exportDay(url, day)));
  return exported.filter(({ settledAt }) => (settledAt as string) >= began.toISOString());
}

function today(): string {
  return new Date().toISOString().slice(0, 10);
}

function keysOf(payments: readonly ShownPayment[]): string[] {
  return payments.map(({ idempotencyKey }) => idempotencyKey);
}

/** Asks for the stored day, takes the beginning of the answer, and reads no further. */
function beginExport({ port }: Service): Promise<Socket> {
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
