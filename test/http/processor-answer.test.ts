import type { ServerResponse } from 'node:http';
import { expect, it, onTestFinished } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { expectFirst, givenPaid, NO_PAYMENT, UNKNOWN_KEY } from '../../testkit/client/payment-answers.js';
import { shownPaymentOf } from '../../testkit/client/payment-records.js';
import { describeDeployments, describeOneDeployment } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { startHttpServer } from '../../testkit/servers/processor-servers.js';
import { until } from '../../testkit/time/until.js';

/** As `MAX_UNDER_WAY` in `ask-processor.ts`. */
const AT_ONCE = 4;
const DEADLINE_MS = 10_000;

const askFor = (url: string, key: string) => ask(`${url}/api/payments/${key}/processor-answer`);

describeDeployments('GET /api/payments/{key}/processor-answer', (deployment) => {
  const shared = shareProcessedService(deployment);
  const simulated = shareService(deployment);

  async function answerFor(key: string, url = shared().url) {
    const before = Date.now();
    const answer = await askFor(url, key);
    expect(answer.status, answer.text).toBe(200);
    expect(answer.headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
    });
    const { askedAt, idempotencyKey, ...rest } = answer.json<Record<string, string>>();
    expect(idempotencyKey).toBe(key);
    // The store's clock runs by the monotonic one, and the wall clock is corrected meanwhile.
    expect(Date.parse(askedAt as string)).toBeGreaterThanOrEqual(before - 1_000);
    return rest;
  }

  it('is what the processor says of a payment, final or not; it charges nothing and changes nothing', async () => {
    const { url, processor } = shared();
    const [paid, declined, unclear] = await Promise.all([1, 2, 3].map(() => generateKey(url)));
    expectFirst(await pay(url, paid as string));
    await processor.behave({ declineRate: 1 });
    expectError(await pay(url, declined as string), 402);
    await processor.behave({ declineRate: 0, refuseWith: 503 });
    expectError(await pay(url, unclear as string), 504);
    const before = await shownPaymentOf(url, unclear as string);
    const { processor: name } = before;
    expect(await answerFor(unclear as string)).toMatchObject({
      processor: name,
      answer: 'unknown',
      reason: 'the processor answered 503 to a look-up, which settles nothing',
    });
    await processor.behave({ refuseWith: null });
    expect(await answerFor(paid as string)).toEqual({ processor: name, answer: 'succeeded', reason: null });
    const { reason } = await shownPaymentOf(url, declined as string);
    expect(await answerFor(declined as string)).toEqual({ processor: name, answer: 'declined', reason });
    expect(await processor.chargesOf(paid as string)).toHaveLength(1);
    expect(await processor.chargesOf(declined as string)).toHaveLength(1);
  });

  it('is "no record" where nothing is known, and 404 for a key that nothing was paid with', async () => {
    const key = await generateKey(simulated.url);
    expectError(await askFor(simulated.url, key), 404, NO_PAYMENT);
    for (const unknown of [UNKNOWN_KEY, 'abc']) expectError(await askFor(simulated.url, unknown), 404, NO_PAYMENT);
    expectFirst(await pay(simulated.url, key));
    expect(await answerFor(key, simulated.url)).toEqual({ processor: 'simulated', answer: 'no record', reason: null });
    expectError(
      await ask(`${simulated.url}/api/payments/${key}/processor-answer?x=1`),
      400,
      /'x' is not a query parameter/,
    );
    expect((await ask(`${simulated.url}/api/payments/${key}/processor-answer`, { method: 'HEAD' })).status).toBe(405);
  });
});

describeDeployments('a processor that quotes the source of a payment', (deployment) => {
  it('is shown to operators without it, before and after the payment is final', async () => {
    const source = 'tok_4b/+=%2F$&';
    let isDown = true;
    const processor = await startHttpServer((response, { method }) => {
      response.writeHead(isDown ? 503 : method === 'GET' ? 200 : 402, { 'content-type': 'application/json' });
      response.end(isDown ? '{}' : `{"status":"declined","reason":"${source}: no funds on ${source}"}`);
    });
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const { url } = await stores.serve({ PROCESSOR_URL: `http://127.0.0.1:${processor.port}` });
    const reasonOf = async (key: string) => (await askFor(url, key)).json<{ reason: string }>().reason;
    const [unclear, declined] = [await generateKey(url), await generateKey(url)];
    const payment = { amount: '100.50', currency: 'USD', source };
    expectError(await pay(url, unclear, payment), 504);
    isDown = false;
    expect(await reasonOf(unclear)).toBe('(the source): no funds on (the source)');
    expectError(await pay(url, declined, payment), 402);
    expect(await reasonOf(declined)).toBe('(the source): no funds on (the source)');
  });
});

describeOneDeployment('a processor that does not answer to operators', (deployment) => {
  it(`is asked for ${AT_ONCE} payments at once, by all clients together, and payments go on alongside it`, async () => {
    const waiting: ServerResponse[] = [];
    const processor = await startHttpServer((response, { method }) => {
      response.setHeader('content-type', 'application/json');
      if (method === 'GET') waiting.push(response);
      else response.end('{"status":"succeeded"}');
    });
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const { url } = await stores.serve({ PROCESSOR_URL: `http://127.0.0.1:${processor.port}` });
    const { key } = await givenPaid(url);
    const asked = Array.from({ length: AT_ONCE }, () => askFor(url, key));
    await until('the processor to be asked', DEADLINE_MS, () => waiting.length === AT_ONCE);
    const refused = await askFor(url, key);
    expectError(refused, 503, /asked for too many payments .* Retry-After/);
    expect(refused.headers['retry-after']).toBe('1');
    await givenPaid(url);
    for (const response of waiting.splice(0)) response.end('{"status":"succeeded"}');
    for (const answer of await Promise.all(asked)) expect(answer.json()).toMatchObject({ answer: 'succeeded' });
    const again = askFor(url, key);
    await until('the processor to be asked again', DEADLINE_MS, () => waiting.length === 1);
    waiting[0]?.end('{"status":"declined","reason":"no funds"}');
    expect((await again).json()).toMatchObject({ answer: 'declined', reason: 'no funds' });
  });
});
