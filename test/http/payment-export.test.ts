import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { expectFirst, givenPaid, untilPaid } from '../../testkit/client/payment-answers.js';
import {
  expectHeadAsGet,
  exportDay,
  exportLines,
  keysOf,
  type ShownPayment,
  shownPaymentOf,
} from '../../testkit/client/payment-records.js';
import { openConnection, requestText } from '../../testkit/client/raw-http.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import type { Service } from '../../testkit/processes/service.js';
import { changeStored, settledPayments } from '../../testkit/protocol/stored-payments.js';
import { pause } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

/** Some megabytes of export, on a day of their own. */
const STORED = 20_000;
const STORED_DAY = '2020-02-29';
/** Time enough for a service that does not wait for its readers to read all of it. */
const READ_AHEAD_MS = 500;
const READERS = 20;
/** All exports held in memory would be more than twice as much. */
const READERS_KIB = 75 * 1024;

describeDeployments('GET /api/payments/export', (deployment) => {
  const shared = shareProcessedService(deployment);

  it('has those that are final, whatever the order of their keys, and none that is PROCESSING', async () => {
    const { url, processor } = shared();
    const began = new Date();
    const [unclear, declined, paid] = [await generateKey(url), await generateKey(url), await generateKey(url)];
    expectFirst(await pay(url, paid));
    await untilPast(1);
    await processor.behave({ declineRate: 1 });
    expectError(await pay(url, declined), 402);
    await processor.behave({ declineRate: 0, refuseWith: 503 });
    expectError(await pay(url, unclear), 504);
    const both = [await shownPaymentOf(url, paid), await shownPaymentOf(url, declined)];
    expect(await exportSince(url, began)).toEqual(both);

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

  it('answers HEAD as GET, without the body', async () => {
    const headers = ['content-type', 'content-disposition', 'cache-control'];
    await expectHeadAsGet(`${shared().url}/api/payments/export?day=${today()}`, headers);
    expect((await ask(`${shared().url}/api/payments/export`, { method: 'HEAD' })).status).toBe(400);
  });

  /** `test/unit/payment-record-request` has every bad day. */
  it.each([
    ['', /^'day' must /],
    ['?day=2026-02-30', /^'day' must /],
    ['?day=2026-11-20&day=2026-11-20', /'day' .*single text/],
    ['?day=2026-11-20&procesor=x', "'procesor' is no query parameter of this path. Use day, processor."],
  ])('refuses the query %j', async (query, message) => {
    expectError(await ask(`${shared().url}/api/payments/export${query}`), 400, message);
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

    it('is complete and in the order of settling, and so are two at once; other days are empty', async () => {
      const [one, other] = await Promise.all([
        exportLines(service.url, STORED_DAY),
        exportLines(service.url, STORED_DAY, '&processor=simulated'),
      ]);
      for (const day of ['2020-02-28', '2020-03-01', '9999-12-31'])
        expect(await exportLines(service.url, day)).toEqual([]);
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
      const clients = await inParallel(READERS, READERS, async () => {
        const request = requestText(`GET /api/payments/export?day=${STORED_DAY} HTTP/1.1`);
        const client = openConnection(service.port, request);
        const [beginning] = await once(client, 'data');
        expect(`${beginning}`).toMatch(/^HTTP\/1\.1 200 /);
        return client.pause();
      });
      await pause(READ_AHEAD_MS);
      expect((await residentKiB(service)) - beforeKiB, `KiB for ${READERS} clients`).toBeLessThan(READERS_KIB);
      for (const client of clients) client.destroy();

      expect(await exportLines(service.url, STORED_DAY)).toHaveLength(STORED);
      await givenPaid(service.url);
      expect(service.logs.filter(({ level }) => level >= 50)).toEqual([]);
    });
  });
});

const today = () => new Date().toISOString().slice(0, 10);

/** Everything that was settled since a moment: a test may run through midnight. */
async function exportSince(url: string, began: Date): Promise<ShownPayment[]> {
  const days = [...new Set([began.toISOString().slice(0, 10), today()])];
  const exported = (await Promise.all(days.map((day) => exportDay(url, day)))).flat();
  return exported.filter(({ settledAt }) => (settledAt as string) >= began.toISOString());
}

/** Memory of the process that is really there. */
async function residentKiB({ pid }: Service): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
}
