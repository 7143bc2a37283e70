import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { USUAL_BEHAVIOUR } from '#idempay/reference-processor/behaviour.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, sendJson } from '../../testkit/client/http-client.js';
import { shownPaymentOf } from '../../testkit/client/payment-records.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';

const MONEY = { amount: '100.50', currency: 'USD' };
const PRESENT = { ...MONEY, returnUrl: 'https://shop.example/orders/17/paid' };

/** Rule P25. */
describeDeployments('the end of a payment that is under way', (deployment) => {
  const shared = shareProcessedService(deployment, { ...USUAL_BEHAVIOUR, pendingRate: 1 });
  const newOrder = () => `reference=order-${randomUUID()}`;
  const pay = (order: string, body: object = PRESENT) => sendJson(`${shared().url}/api/payment?${order}`, 'POST', body);
  const cancel = (query: string, headers: Record<string, string> = {}) =>
    ask(`${shared().url}/api/payment-cancellation?${query}`, { method: 'POST', headers });
  const keyOf = (answer: Answer) => String(answer.headers['idempotency-key']);
  const confirm = (key: string) => ask(`${shared().processor.url}/pending/${key}/confirm`, { method: 'POST' });
  const chargedWith = async (key: string) =>
    (await shared().processor.chargesOf(key)).filter(({ status }) => status === 'succeeded').length;

  async function givenPending(order = newOrder()) {
    const answer = await pay(order);
    expect(answer.status, answer.text).toBe(202);
    return { order, key: keyOf(answer) };
  }

  const expectCancelled = (answer: Answer) =>
    expect([answer.status, answer.text]).toEqual([200, '"Payment cancelled."']);
  const shown = (key: string) => shownPaymentOf(shared().url, key);

  it('by its reference closes the order, and holds against a payer who confirms afterwards', async () => {
    const { order, key } = await givenPending();
    expectCancelled(await cancel(order));
    expectCancelled(await cancel(order));
    expect(await shown(key)).toMatchObject({ state: 'DECLINED', ending: 'order', processorId: expect.any(String) });
    await confirm(key);
    expect(await chargedWith(key)).toBe(0);
    expectError(await pay(`${order}&attempt=2`), 410);
    expect([402, 422]).toContain((await pay(order)).status);
  });

  it('by its key ends it, and a payment with the key is declined', async () => {
    const { key } = await givenPending();
    expectCancelled(await cancel('', { 'Idempotency-Key': key }));
    const answer = await sendJson(`${shared().url}/api/payment`, 'POST', MONEY, { 'Idempotency-Key': key });
    expect([402, 422]).toContain(answer.status);
    expect(await chargedWith(key)).toBe(0);
  });

  it('of one attempt only leaves the order to the next one, and says the same again', async () => {
    const { order, key } = await givenPending();
    expectCancelled(await cancel(`${order}&only=attempt`));
    expectCancelled(await cancel(`${order}&only=attempt`));
    expect(await shown(key)).toMatchObject({ state: 'DECLINED', ending: 'attempt' });
    const { key: next } = await givenPending(`${order}&attempt=2`);
    expectCancelled(await cancel(`${order}&attempt=2&only=attempt`));
    expectError(await pay(order), 422);
    expect([await chargedWith(key), await chargedWith(next)]).toEqual([0, 0]);
  });

  it('that comes after the payer confirmed finds it paid', async () => {
    const { order, key } = await givenPending();
    await confirm(key);
    const answer = await cancel(`${order}&only=attempt`);
    expectError(answer, 422);
    expect(answer.headers['idempay-attempt-state']).toBe('completed');
    expect(await shown(key)).toMatchObject({ state: 'COMPLETED' });
    expect(await chargedWith(key)).toBe(1);
  });

  it('of an attempt that was never begun ends nothing, and the attempt may be paid', async () => {
    const order = newOrder();
    const answer = await cancel(`${order}&only=attempt`);
    expectError(answer, 422);
    expect(answer.headers['idempay-attempt-state']).toBe('not-begun');
    await givenPending(order);
  });

  it('of one attempt is 200 for an attempt that was declined, and leaves a closed order closed', async () => {
    const order = newOrder();
    await shared().processor.behave({ declineRate: 1, pendingRate: 0 });
    expectError(await pay(order), 402);
    await shared().processor.behave({ declineRate: 0, pendingRate: 1 });
    expectCancelled(await cancel(`${order}&only=attempt`));
    expectError(await cancel(order), 422);
    expectCancelled(await cancel(`${order}&attempt=2`));
    expectCancelled(await cancel(`${order}&attempt=2&only=attempt`));
    expectCancelled(await cancel(order));
  });

  it.each(['only=', 'only=order', 'only=ATTEMPT', 'only=attempt&only=attempt'])('with %s is refused', async (scope) => {
    const { order, key } = await givenPending();
    expectError(await cancel(`${order}&${scope}`), 400);
    expect(await shown(key)).toMatchObject({ state: 'PROCESSING' });
  });

  it('of one attempt needs a reference', async () => {
    const { key } = await givenPending();
    const answer = await cancel('only=attempt', { 'Idempotency-Key': key });
    expectError(answer, 400);
    expect(answer.text).toContain("'only' ends one attempt");
    expect(await shown(key)).toMatchObject({ state: 'PROCESSING' });
  });

  it('that the processor refuses is 409, and the payment waits as before', async () => {
    const { order, key } = await givenPending();
    await shared().processor.behave({ endWith: 409 });
    const answer = await cancel(order);
    await shared().processor.behave({ endWith: null });
    expectError(answer, 409);
    expect(answer.headers).toMatchObject({ 'idempay-attempt-state': 'cannot-be-ended', 'retry-after': '60' });
    expect(await shown(key)).toMatchObject({ state: 'PROCESSING', pending: { until: expect.any(String) } });
    expect(await shown(key)).not.toHaveProperty('ending');
  });

  it('is asked for again after the processor did not answer, and nothing is charged meanwhile', async () => {
    const { order, key } = await givenPending();
    await shared().processor.behave({ endWith: 425 });
    expectError(await cancel(order), 504);
    expect(await shown(key)).toMatchObject({ state: 'PROCESSING', ending: 'order' });
    const timeline = await ask(`${shared().url}/api/payments/${key}/timeline`);
    expect(timeline.json()).toMatchObject({ next: { what: 'ending' } });
    expectError(await pay(order, MONEY), 504);
    await shared().processor.behave({ endWith: null });
    expectCancelled(await cancel(order));
    expect(await chargedWith(key)).toBe(0);
  });
});
