import { Redis } from 'ioredis';
import { expect, onTestFinished, test } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, generateKey, pay, paymentStatus, sendJson } from '../../testkit/client/http-client.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { aged, changeStored } from '../../testkit/protocol/stored-rows.js';
import { startTcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { pause, until } from '../../testkit/time/until.js';

const LINE = { amount: '12.50', currency: 'USD' };
const TTL_SECONDS = 2;
const PAID_DEADLINE_MS = 10_000;
const DAY_MS = 86_400_000;
const FIRST = /^"Refund processed successfully with Transaction ID: TXN\d+"$/;
/** The last refund was lost, and the sum that it had raised; the next start finds a database that may lack rows. */
const REFUND_LOST = {
  embedded:
    'DELETE FROM payments WHERE refund_of IS NOT NULL; UPDATE payments SET refunded = NULL; UPDATE deployment SET is_backup = 1',
  distributed:
    "DELETE FROM idempay.payments WHERE refund_of IS NOT NULL; UPDATE idempay.payments SET refunded = NULL; UPDATE idempay.deployment SET timeline = 'FFFFFFFF'",
};

/** Rule P26: the row of a refund answers for as long as it is kept. */
describeDeployments('refunds that are kept', (deployment) => {
  async function opened() {
    const [stores, processor] = await Promise.all([deployment.open(), serveReferenceProcessor()]);
    onTestFinished(async () => {
      await stores.close();
      await processor.close();
    });
    return { stores, processor };
  }
  const refund = (url: string, key: string, name = 'line-2'): Promise<Answer> =>
    sendJson(`${url}/api/refund?refund=${name}`, 'POST', LINE, { 'Idempotency-Key': key });
  async function givenPaid(url: string): Promise<string> {
    return until('a payment within the life of its key', PAID_DEADLINE_MS, async () => {
      const key = await generateKey(url);
      const { status } = await pay(url, key);
      // A machine that pauses may pay too late.
      expect([200, 400]).toContain(status);
      return status === 200 && key;
    });
  }
  async function flush({ environment: { REDIS_URL } }: Stores): Promise<void> {
    if (REDIS_URL === undefined) return;
    const redis = new Redis(REDIS_URL);
    await redis.flushall();
    redis.disconnect();
  }

  test('a name gets the same answer after the life of the key, a FLUSHALL and a restart, and other names too', async () => {
    const { stores, processor } = await opened();
    const settings = { PROCESSOR_URL: processor.url, IDEMPOTENCY_TTL_SECONDS: `${TTL_SECONDS}` };
    const first = await stores.serve(settings);
    const key = await givenPaid(first.url);
    const made = await refund(first.url, key);
    expect(made.text).toMatch(FIRST);
    await processor.behave({ declineRate: 1 });
    const declined = await refund(first.url, key, 'line-3');
    await processor.behave({ declineRate: 0 });
    expectError(declined, 402);
    const expectTheSame = async (url: string) => {
      const again = await refund(url, key);
      expect([again.status, again.text]).toEqual([200, `"${/Transaction ID: TXN\d+/.exec(made.text)?.[0]}"`]);
      const declinedAgain = await refund(url, key, 'line-3');
      expect([declinedAgain.status, declinedAgain.text]).toEqual([402, declined.text]);
    };

    await pause(TTL_SECONDS * 1_000);
    await expect.poll(async () => (await paymentStatus(first.url, key)).status).toBe(404);
    expectError(await pay(first.url, key), 400);
    await expectTheSame(first.url);
    await flush(stores);
    await expectTheSame(first.url);
    await first.stop();
    const second = await stores.serve(settings);
    await expectTheSame(second.url);
    // The payment's key has expired, and the payment can be refunded all the same.
    expect((await refund(second.url, key, 'line-4')).text).toMatch(FIRST);
    expect((await ask(`${second.url}/api/payments/${key}`)).json()).toMatchObject({ refunded: '25.00' });
    expect((await processor.refundsOf(key)).map(({ status }) => status)).toEqual([
      'succeeded',
      'declined',
      'succeeded',
    ]);
  });

  test('a day later a name gets the same answer, whatever became of its refund, and was sent once', async () => {
    const { stores, processor } = await opened();
    const settings = { PROCESSOR_URL: processor.url };
    const before = await stores.serve(settings);
    const key = await givenPaid(before.url);
    const answers: Record<string, Answer> = {};
    const refundWith = async (name: string, behaviour: Parameters<typeof processor.behave>[0]) => {
      await processor.behave(behaviour);
      answers[name] = await refund(before.url, key, name);
      await processor.behave({ declineRate: 0, refundPendingRate: 0, lostReplyRate: 0 });
    };
    await refundWith('made', {});
    await refundWith('declined', { declineRate: 1 });
    await refundWith('pending', { refundPendingRate: 1 });
    await refundWith('lost', { lostReplyRate: 1 });
    expect(Object.values(answers).map(({ status }) => status)).toEqual([200, 402, 202, 504]);
    const refundKeys = Object.values(answers).map(({ headers }) => String(headers['idempay-refund-key']));
    await before.stop();
    const { embedded, distributed } = aged([key, ...refundKeys], 2 * DAY_MS);
    // The records of keys have gone by then, in the one store and in the other.
    await flush(stores);
    await changeStored(stores, { embedded: `${embedded}; DELETE FROM idempotency_keys`, distributed });
    await ask(`${processor.url}/pending/${refundKeys[2]}/confirm`, { method: 'POST' });
    // Whatever is sent again would count.
    await processor.behave({ deduplicate: false });

    const { url } = await stores.serve(settings);
    expectError(await pay(url, key), 400);
    for (const [name, first] of Object.entries(answers)) {
      const isDeclined = name === 'declined';
      await expect
        .poll(async () => (await refund(url, key, name)).status, { timeout: 60_000, interval: 200 })
        .toBe(isDeclined ? 402 : 200);
      const again = await refund(url, key, name);
      expect(again.headers['idempay-refund-key']).toBe(first.headers['idempay-refund-key']);
      const transactionId = /TXN\d+/.exec(first.text)?.[0];
      if (isDeclined) expect(again.text).toBe(first.text);
      else if (name === 'made') expect(again.text).toBe(`"Transaction ID: ${transactionId}"`);
      else expect(again.text).toMatch(/^"Transaction ID: TXN\d+"$/);
    }
    const statuses = (await processor.refundsOf(key)).map(({ reference, status }) => `${reference} ${status}`);
    const [made, declined, pending, lost] = refundKeys;
    const ends = [`${made} succeeded`, `${declined} declined`, `${pending} succeeded`, `${lost} succeeded`];
    expect(statuses.filter((status) => !status.endsWith('pending')).sort()).toEqual(ends.sort());
    expect((await ask(`${url}/api/payments/${key}`)).json()).toMatchObject({ refunded: '37.50' });
  });

  test('a payment of a former name of this account is refunded, and one of another processor is 409', async () => {
    const { stores, processor } = await opened();
    const proxy = await startTcpProxy(processor.port);
    onTestFinished(() => proxy.close());
    const before = await stores.serve({ PROCESSOR_URL: processor.url });
    const key = await givenPaid(before.url);
    const formerName = `${processor.url}?no-user`;
    await before.stop();

    const moved = { PROCESSOR_URL: proxy.through(processor.url) };
    const stranger = await stores.serve(moved);
    expectError(
      await refund(stranger.url, key),
      409,
      new RegExp(`^The payment was charged by the processor ${formerName.replace('?', '\\?')}, `),
    );
    expect((await ask(`${stranger.url}/api/payments/${key}/refunds`)).json()).toEqual([]);
    await stranger.stop();

    const { url } = await stores.serve({ ...moved, PROCESSOR_FORMER_NAMES: formerName });
    expect((await refund(url, key)).text).toMatch(FIRST);
    expect(await processor.refundsOf(key)).toHaveLength(1);
  });

  test('after rows were lost, a name whose refund was made is found at the processor, and not made again', async () => {
    const { stores, processor } = await opened();
    const settings = { PROCESSOR_URL: processor.url };
    const before = await stores.serve(settings);
    const key = await givenPaid(before.url);
    expect((await refund(before.url, key)).status).toBe(200);
    await before.stop();
    await changeStored(stores, REFUND_LOST);
    // Whatever arrives now is carried out: the question before it decides.
    await processor.behave({ deduplicate: false });

    const { url } = await stores.serve(settings);
    expect((await ask(`${url}/api/payments/${key}/refunds`)).json()).toEqual([]);
    expect((await refund(url, key)).status).toBe(200);
    expect(await processor.refundsOf(key)).toHaveLength(1);
    expect((await ask(`${url}/api/payments/${key}`)).json()).toMatchObject({ refunded: '12.50' });
    // Another name has no record there, and is sent.
    expect((await refund(url, key, 'line-3')).status).toBe(200);
    expect(await processor.refundsOf(key)).toHaveLength(2);
  });
});
