import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ask } from '../../testkit/client/http-client.js';
import { givenPaid } from '../../testkit/client/payment-answers.js';
import { exportLines, type ShownPayment } from '../../testkit/client/payment-records.js';
import { openConnection, requestText } from '../../testkit/client/raw-http.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import type { Service } from '../../testkit/processes/service.js';
import { changeStored, settledPayments } from '../../testkit/protocol/stored-rows.js';

/** 25 MB of export, on a day of their own: several times what sockets hold, and more than SQLite keeps in memory. */
const STORED = 60_000;
const STORED_DAY = '2020-02-29';
const READERS = 6;
/** A service that did not wait would read as many as there are clients. */
const EXPORTS_READ = READERS / 2;

describeDeployments(`GET /api/payments/export of ${STORED} payments of one day`, (deployment) => {
  let stores: Stores;
  let service: Service;
  beforeAll(async () => {
    stores = await deployment.open();
    await (await stores.serve()).stop();
    await changeStored(stores, settledPayments(STORED, Date.parse(`${STORED_DAY}T00:00:00Z`)));
    // A process, whose reads are counted.
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
    // A disk may be slow for as long as one export lasts.
    let wasFirst = false;
    for (let tries = 0; tries < 3 && !wasFirst; tries += 1) {
      let ended = false;
      const exported = ask(`${service.url}/api/payments/export?day=${STORED_DAY}`).finally(() => {
        ended = true;
      });
      await givenPaid(service.url);
      wasFirst = !ended;
      expect((await exported).status).toBe(200);
    }
    expect(wasFirst, 'a payment has ended before an export').toBe(true);
  });

  it('costs little for clients that do not read it, and nothing after they have gone', async () => {
    const beforeOne = await bytesRead(service);
    await exportLines(service.url, STORED_DAY);
    const beforeReaders = await bytesRead(service);
    const clients = await inParallel(READERS, READERS, async () => {
      const request = requestText(`GET /api/payments/export?day=${STORED_DAY} HTTP/1.1`);
      const client = openConnection(service.port, request);
      const [beginning] = await once(client, 'data');
      expect(`${beginning}`).toMatch(/^HTTP\/1\.1 200 /);
      return client.pause();
    });
    // While it is read to its end, a service that did not wait for the others would have read theirs, which began before.
    expect(await exportLines(service.url, STORED_DAY)).toHaveLength(STORED);
    // Not memory, of which garbage is the larger part: what is not read of the store is not held.
    const exportsRead = ((await bytesRead(service)) - beforeReaders) / (beforeReaders - beforeOne) - 1;
    expect(exportsRead, `exports read for ${READERS} clients`).toBeLessThan(EXPORTS_READ);
    for (const client of clients) client.destroy();

    expect(await exportLines(service.url, STORED_DAY)).toHaveLength(STORED);
    await givenPaid(service.url);
    expect(service.logs.filter(({ level }) => level >= 50)).toEqual([]);
  });

  /**
   * Bug: an export of a processor without payments sent no byte before its end, so the command gave up, and it was read on after its client
   * had left, also through a drain. Fix: what is passed over is told by a blank.
   */
  it('of a processor without payments begins at once, and ends with its client', async () => {
    const path = `/api/payments/export?day=${STORED_DAY}&processor=nobody`;
    expect(await exportLines(service.url, STORED_DAY, '&processor=nobody')).toEqual([]);
    const beforeOne = await bytesRead(service);
    await ask(`${service.url}${path}`);
    const one = (await bytesRead(service)) - beforeOne;
    const beforeReaders = await bytesRead(service);
    for (let reader = 0; reader < READERS; reader += 1) {
      const client = openConnection(service.port, requestText(`GET ${path} HTTP/1.1`));
      await once(client, 'data');
      client.destroy();
    }
    await givenPaid(service.url);
    await ask(`${service.url}${path}`);
    expect(((await bytesRead(service)) - beforeReaders) / one, `exports read for ${READERS} clients`).toBeLessThan(
      EXPORTS_READ,
    );
  });

  /**
   * Bug: an export that was cut was taken for a whole one behind a proxy that speaks HTTP/1.0, which has no other end than the connection's
   * end. Fix: only a whole export has a last line. The last test: it kills the process.
   */
  it('has no last line where the process is killed in its middle, also to a client of HTTP/1.0', async () => {
    const request = requestText(`GET /api/payments/export?day=${STORED_DAY} HTTP/1.0`);
    const client = openConnection(service.port, request);
    const [beginning] = await once(client, 'data');
    client.pause();
    await service.kill();
    let received = String(beginning);
    for await (const more of client) received += more;
    expect(received).toMatch(/^HTTP\/1\.1 200 /);
    expect(received).toContain('"state":"COMPLETED"');
    expect(received).not.toContain('"end"');
  });
});

/** The bytes that the process has read so far, of files and sockets. */
async function bytesRead({ pid }: Service): Promise<number> {
  return Number(/^rchar: (\d+)$/m.exec(await readFile(`/proc/${pid}/io`, 'utf8'))?.[1]);
}
