import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { DeadKeyError, Idempay, isSamePayment, UnavailableError, UnusedKeyError } from '@idempay/client';
import { expect, test } from 'vitest';
import { UNKNOWN_KEY } from '../../testkit/client/payment-answers.js';
import { allOf, failureOf } from '../../testkit/client-library/scripted-fetch.js';
import { describeOneDeployment } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const PAYMENT = { amount: '100.50', currency: 'USD' };
/** UUIDv7 of 1970: longer ago than any key lives. */
const LONG_EXPIRED = '00000000-0001-7000-8000-000000000001';

describeOneDeployment('what the client takes from an answer', (deployment) => {
  const service = shareService(deployment);
  const client = () => new Idempay({ baseUrl: service.url });

  /**
   * Bug: `resume` with another amount resolved, and nothing showed that another amount had been paid. Cause: without
   * PAYLOAD_MISMATCH=reject the service replays (the specification), and the answer has only the transaction id. Fix: the record is read.
   */
  test('a payment that is resumed with another amount shows what was paid', async () => {
    const { payments } = client();
    const { key, ...paid } = await payments.pay({ amount: '100.5', currency: 'usd' });
    expect(paid).toMatchObject({ amount: '100.5', currency: 'USD' });
    const resumed = await payments.resume(key, { amount: '7', currency: 'EUR' });
    expect(resumed).toMatchObject({ ...PAYMENT, transactionId: paid.transactionId });
    expect([isSamePayment(resumed, PAYMENT), isSamePayment(resumed, { amount: '7', currency: 'EUR' })]).toEqual([
      true,
      false,
    ]);
  });

  /**
   * Bug: a key that had expired unpaid was "try again" for ever. Cause: one error for what a repeat settles and for what it never will.
   * Fix: the service says whether it is certain that nothing was charged, and the client ends in an error for each case.
   */
  test('a key that the service refuses is unused where that is certain, and dead where it is not', async () => {
    const { payments } = client();
    expect(await failureOf(UnusedKeyError, payments.resume(LONG_EXPIRED, PAYMENT))).toMatchObject({
      key: LONG_EXPIRED,
    });
    const dead = await failureOf(DeadKeyError, payments.resume(UNKNOWN_KEY, PAYMENT));
    expect(dead).toMatchObject({ key: UNKNOWN_KEY, record: null });
  });

  /**
   * Bug: a list or an export that was cut was whole to the client. Cause: behind a proxy that speaks HTTP/1.0 the end of the connection is
   * the end of the answer. Fix: an array needs its bracket, an export its last line.
   */
  test('a list or an export that is cut behind a proxy of HTTP/1.0 is not whole', async () => {
    const direct = client();
    await direct.payments.pay(PAYMENT);
    await direct.transactions.create({ fromAccount: 'alice', toAccount: 'bob', amount: '1' });
    const today = new Date().toISOString().slice(0, '2026-11-25'.length);
    for (const cutBytes of [0, 1, 40]) {
      const proxy = await startOldProxy(service.url, cutBytes);
      const idempay = new Idempay({ baseUrl: proxy.url });
      for (const read of [() => allOf(idempay.transactions.list()), () => allOf(idempay.payments.export(today))]) {
        if (cutBytes === 0) expect(await read()).not.toHaveLength(0);
        else await failureOf(UnavailableError, read());
      }
      await proxy.close();
    }
  });
});

/** Answers as HTTP/1.0: without a length, until the connection ends, which it does this number of bytes too early. */
async function startOldProxy(target: string, cutBytes: number) {
  const server = createServer((socket) => {
    socket.once('data', async (head) => {
      const [, path = '/'] = /^GET (\S+) /.exec(head.toString('latin1')) ?? [];
      const response = await fetch(`${target}${path}`);
      const body = Buffer.from(await response.arrayBuffer());
      const type = response.headers.get('content-type') ?? '';
      socket.write(`HTTP/1.0 200 OK\r\nContent-Type: ${type}\r\nIdempay: 1\r\n\r\n`);
      socket.end(body.subarray(0, body.length - cutBytes));
    });
    socket.on('error', () => {});
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      const closed = once(server, 'close');
      server.close();
      await closed;
    },
  };
}
