import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { payOrder } from '../../testkit/client/orders.js';
import { beginPayment, expectFirst, givenPaid, NO_PAYMENT, UNKNOWN_KEY } from '../../testkit/client/payment-answers.js';
import {
  readTimeline,
  resolvePayment,
  type ShownTimeline,
  shownPaymentOf,
  timelineOf,
} from '../../testkit/client/payment-records.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareHeldService } from '../../testkit/deployments/held-service.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const DEADLINE_MS = 15_000;
/** So that what is unknown is an operator's soon. */
const DEDUP_SECONDS = 3;
const UNCLEAR = { PROCESSOR_DEDUP_SECONDS: `${DEDUP_SECONDS}` };

const namesOf = ({ events }: ShownTimeline) => events.map(({ event }) => event);
const msOf = (time: string | null | undefined) => Date.parse(time ?? '');

describeDeployments('GET /api/payments/{key}/timeline', (deployment) => {
  const shared = shareService(deployment);
  const slow = shareHeldService(deployment);
  const processed = shareProcessedService(deployment, {}, UNCLEAR);

  it('tells of a key that was issued when that was, and until when it can be paid with', async () => {
    const key = await generateKey(shared.url);
    const { createdAt } = await shownPaymentOf(shared.url, key);
    const { state, events, omitted, next } = await timelineOf(shared.url, key);
    const issued = { at: createdAt, event: 'issued', execution: null, process: null, by: null, detail: null };
    expect({ state, events, omitted }).toEqual({ state: 'PENDING', events: [issued], omitted: 0 });
    expect(next).toMatchObject({ what: 'pay', text: expect.stringMatching(/^The key is issued/) });
    expect(msOf(next.at)).toBe(msOf(createdAt) + DAY_MS);
  });

  it('tells of a payment when it was claimed and settled, and by which process, and until when it is repeated', async () => {
    const { key } = await givenPaid(shared.url);
    const { claimedAt, settledAt } = await shownPaymentOf(shared.url, key);
    const { state, events, next } = await timelineOf(shared.url, key);
    const process = events[1]?.process;
    expect(process).toMatch(/^[0-9a-f-]{36}$/);
    const first = { execution: 1, process, by: null, detail: null };
    expect(events.slice(1)).toEqual([
      { ...first, at: claimedAt, event: 'claimed' },
      { ...first, at: null, event: 'charged' },
      { ...first, at: settledAt, event: 'settled', detail: 'COMPLETED' },
    ]);
    expect([state, next.what]).toEqual(['COMPLETED', 'replayed']);
    // PostgreSQL reads its clock twice in the statement, and may be interrupted between the two.
    expect(msOf(next.at)).toBeGreaterThanOrEqual(msOf(settledAt) + DAY_MS);
    expect(msOf(next.at)).toBeLessThan(msOf(settledAt) + DAY_MS + HOUR_MS);
    expect(await timelineOf(shared.url, (await givenPaid(shared.url)).key)).toMatchObject({
      events: [{}, { process }, {}, {}],
    });
  });

  it('says that an attempt is at work, and until when its lease holds', async () => {
    const key = await generateKey(slow.url);
    const { finished } = await beginPayment(slow.url, key);
    const { events, next } = await until('the claim', DEADLINE_MS, async () => {
      const timeline = await timelineOf(slow.url, key);
      return timeline.state === 'PROCESSING' && timeline;
    });
    expect(events.map(({ event }) => event)).toEqual(['issued', 'claimed']);
    expect(next.what).toBe('under way');
    expect(msOf(next.at)).toBeGreaterThan(Date.now());
    slow.release(key);
    expectFirst(await finished);
  });

  it('tells what was not sent, not clear and looked up, and what an operator made of it', async () => {
    const { url, processor } = processed();
    await processor.behave({ refuseWith: 503 });
    const key = await generateKey(url);
    expectError(await pay(url, key), 504);
    const unclear = await timelineOf(url, key);
    expect(unclear.events.slice(1, 3)).toMatchObject([
      { event: 'claimed', execution: 1 },
      { event: 'unknown', execution: 1, detail: 'the processor answered 503 to a charge, which settles nothing' },
    ]);
    expect(unclear.events[1]?.process).toBe(unclear.events[2]?.process);
    expect(unclear.next.what).toMatch(/^(recovery|under way)$/);

    const resolvable = await until('an operator to be asked', DEADLINE_MS, async () => {
      const timeline = await timelineOf(url, key);
      return timeline.next.what === 'operator' && namesOf(timeline).includes('looked up') && timeline;
    });
    const { claimedAt } = await shownPaymentOf(url, key);
    expect(msOf(resolvable.next.at)).toBe(msOf(claimedAt) + DEDUP_SECONDS * 1_000);
    const lookUp = {
      event: 'looked up',
      detail: expect.stringMatching(/^the processor gave no clear answer: .* 503 /),
    };
    const after = resolvable.events.slice(3);
    expect(after.slice(0, 2)).toMatchObject([{ event: 'taken over', execution: 2, detail: null }, lookUp]);

    const reason = 'on the statement <b>\u202e';
    const resolved = await until('the resolution', DEADLINE_MS, async () => {
      const answer = await resolvePayment(url, key, { outcome: 'declined', reason });
      return answer.status === 200;
    });
    expect(resolved).toBe(true);
    const { settledAt } = await shownPaymentOf(url, key);
    const { events, next } = await timelineOf(url, key);
    const end = { event: 'resolved', at: settledAt, execution: null, detail: `DECLINED: ${reason}` };
    expect(events.at(-1)).toMatchObject(end);
    expect(events.at(-1)?.process).toBe(unclear.events[1]?.process);
    expect(next.what).toBe('replayed');
    await processor.behave({ refuseWith: null });
  });

  it('tells that a repeat found out, or charged, what was left unclear; and why a payment was declined', async () => {
    const { url, processor } = processed();
    await processor.behave({ refuseWith: null, lostReplyRate: 1 });
    const lost = await generateKey(url);
    expectError(await pay(url, lost), 504);
    await processor.behave({ lostReplyRate: 0 });
    await until('the outcome', DEADLINE_MS, async () => (await pay(url, lost)).status === 200);
    const found = await timelineOf(url, lost);
    expect(namesOf(found).slice(0, 3)).toEqual(['issued', 'claimed', 'unknown']);
    expect(namesOf(found).slice(-3)).toEqual(['taken over', 'looked up', 'settled']);
    expect(found.events.at(-2)?.detail).toBe('the processor knows its outcome');

    await processor.behave({ failRate: 1 });
    const failed = await generateKey(url);
    expectError(await pay(url, failed), 504);
    await processor.behave({ failRate: 0 });
    await until('the charge', DEADLINE_MS, async () => (await pay(url, failed)).status === 200);
    const charged = await timelineOf(url, failed);
    expect(namesOf(charged).slice(-4)).toEqual(['taken over', 'looked up', 'charged', 'settled']);
    expect(charged.events.at(-3)?.detail).toBe('the processor has no record of it');

    await processor.behave({ declineRate: 1 });
    const declined = await generateKey(url);
    expectError(await pay(url, declined), 402);
    await processor.behave({ declineRate: 0 });
    const { reason } = await shownPaymentOf(url, declined);
    const { events } = await timelineOf(url, declined);
    expect(events.map(({ event }) => event)).toEqual(['issued', 'claimed', 'settled']);
    expect(events.at(-1)?.detail).toBe(`DECLINED: ${reason}`);
  });

  /** Bug: it promised the outcome of a declined attempt to a repeat, which got 422 because a later attempt was made. */
  it('tells what a repeat of a declined attempt gets, before and after a later one', async () => {
    const { url, processor } = processed();
    const order = { reference: 'order-17', amount: '100.50', currency: 'USD' };
    await processor.behave({ declineRate: 1 });
    const declined = await payOrder(url, order);
    expectError(declined, 402);
    await processor.behave({ declineRate: 0 });
    const key = String(declined.headers['idempotency-key']);
    const before = { what: 'replayed', text: expect.stringContaining('until a later attempt is made') };
    expect((await timelineOf(url, key)).next).toMatchObject(before);
    expect((await payOrder(url, order, 2)).status).toBe(200);
    const after = { what: 'superseded', text: expect.stringContaining('a repeat of attempt 1 is refused') };
    expect((await timelineOf(url, key)).next).toMatchObject(after);
    expectError(await payOrder(url, order), 422);
  });

  it('is refused for what is no key, for a key that nobody knows, and with parameters', async () => {
    for (const key of [UNKNOWN_KEY, 'abc']) expectError(await readTimeline(shared.url, key), 404, NO_PAYMENT);
    const message = "'limit' is not a query parameter of this path. Send it without parameters.";
    expectError(await ask(`${shared.url}/api/payments/${UNKNOWN_KEY}/timeline?limit=1`), 400, message);
  });
});
