import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { USUAL_BEHAVIOUR } from '#idempay/reference-processor/behaviour.js';
import { ask } from '../../testkit/client/http-client.js';
import {
  lookUpCharge,
  type ReferenceProcessor,
  sendCharge,
  startReferenceProcessor,
  USUAL_CHARGE,
} from '../../testkit/processes/reference-processor.js';
import { until } from '../../testkit/time/until.js';

/** Longer than any test here runs: what waits so long is at work until the test has seen it. */
const FOREVER_MS = 60_000;
const DEADLINE_MS = 10_000;
const DECLINED = { status: 'declined', reason: 'insufficient funds' };

describe('the reference processor', () => {
  let processor: ReferenceProcessor;
  let url: string;
  let reference: string;

  beforeAll(async () => {
    processor = await startReferenceProcessor();
    url = processor.url;
  });
  afterAll(() => processor?.close());
  beforeEach(async () => {
    await processor.behave(USUAL_BEHAVIOUR);
    reference = randomUUID();
  });

  it('answers 201 to a charge that succeeded, and its log has every member as it was sent', async () => {
    const before = Date.now();
    const answer = await sendCharge(url, reference, { transactionId: 'TXN1', amount: '0100.500', currency: 'JPY' });

    expect([answer.status, answer.json()]).toEqual([201, { status: 'succeeded' }]);
    const [line, ...others] = await processor.chargesOf(reference);
    expect(others).toEqual([]);
    const { at, ...rest } = line ?? { at: '' };
    expect(rest).toEqual({
      reference,
      transactionId: 'TXN1',
      amount: '0100.500',
      currency: 'JPY',
      status: 'succeeded',
    });
    expect(new Date(at).toISOString()).toBe(at);
    expect(Date.parse(at)).toBeGreaterThanOrEqual(before);
  });

  it('answers 402 with the reason to a charge that is declined, and logs that', async () => {
    await processor.behave({ declineRate: 1 });
    const answer = await sendCharge(url, reference);

    expect([answer.status, answer.json()]).toEqual([402, DECLINED]);
    expect(await processor.chargesOf(reference)).toMatchObject([{ ...USUAL_CHARGE, ...DECLINED }]);
  });

  it('answers a repeat with the same outcome, also a decline, and logs nothing', async () => {
    const declined = randomUUID();
    await sendCharge(url, reference);
    await processor.behave({ declineRate: 1 });
    await sendCharge(url, declined);

    const repeat = await sendCharge(url, reference);
    await processor.behave({ declineRate: 0 });
    const declinedRepeat = await sendCharge(url, declined);

    expect([repeat.status, repeat.json()]).toEqual([201, { status: 'succeeded' }]);
    expect([declinedRepeat.status, declinedRepeat.json()]).toEqual([402, DECLINED]);
    expect(await processor.chargesOf(reference)).toHaveLength(1);
    expect(await processor.chargesOf(declined)).toHaveLength(1);
  });

  it.each([
    ['transaction id', { transactionId: 'TXN2' }],
    ['amount', { amount: '100.5' }],
    ['currency', { currency: 'EUR' }],
  ])('answers 422 to a known reference with another %s, and logs nothing', async (_member, change) => {
    await sendCharge(url, reference);
    const answer = await sendCharge(url, reference, { ...USUAL_CHARGE, ...change });

    expect(answer.status).toBe(422);
    expect(answer.json()).toHaveProperty('error');
    expect(await processor.chargesOf(reference)).toHaveLength(1);
  });

  it('answers 409 to a repeat and to a look-up while the charge is at work', async () => {
    await processor.behave({ latencyMs: FOREVER_MS });
    void sendCharge(url, reference).catch(() => {});
    await until(
      'the charge to be at work',
      DEADLINE_MS,
      async () => (await lookUpCharge(url, reference)).status === 409,
    );

    expect((await sendCharge(url, reference)).status).toBe(409);
    expect(await processor.chargesOf(reference)).toEqual([]);
  });

  it('charges once when the same charge arrives many times at the same moment', async () => {
    const answers = await Promise.all(Array.from({ length: 50 }, () => sendCharge(url, reference)));

    for (const { status } of answers) expect([201, 409]).toContain(status);
    expect(answers.map(({ status }) => status)).toContain(201);
    expect(await processor.chargesOf(reference)).toHaveLength(1);
  });

  it('finds a charge by its reference, and answers 404 when there is none', async () => {
    const declined = randomUUID();
    await sendCharge(url, reference);
    await processor.behave({ declineRate: 1 });
    await sendCharge(url, declined);

    const [found, foundDeclined, unknown] = await Promise.all(
      [reference, declined, randomUUID()].map((each) => lookUpCharge(url, each)),
    );
    expect([found?.status, found?.json()]).toEqual([200, { status: 'succeeded' }]);
    expect([foundDeclined?.status, foundDeclined?.json()]).toEqual([200, DECLINED]);
    expect(unknown?.status).toBe(404);
  });

  it('takes any visible reference of up to 255 characters, in the header as in the path', async () => {
    for (const odd of ['a/b?c=d#e%20f', '"quoted"', '/'.repeat(255)]) {
      expect((await sendCharge(url, odd)).status).toBe(201);
      expect((await lookUpCharge(url, odd)).status).toBe(200);
      expect(await processor.chargesOf(odd)).toHaveLength(1);
    }
    expect((await sendCharge(url, 'x'.repeat(256))).status).toBe(400);
  });

  it.each([
    ['no transaction id', { amount: '1', currency: 'USD' }],
    ['no amount', { transactionId: 'TXN1', currency: 'USD' }],
    ['no currency', { transactionId: 'TXN1', amount: '1' }],
    ['an amount that is a number', { ...USUAL_CHARGE, amount: 100.5 }],
    ['an amount that is no decimal number', { ...USUAL_CHARGE, amount: '1e2' }],
    ['an empty transaction id', { ...USUAL_CHARGE, transactionId: '' }],
    ['a currency that is no code', { ...USUAL_CHARGE, currency: 'dollars' }],
    ['a list', []],
    ['text that is no JSON', '{"transactionId":'],
    ['nothing', ''],
  ])('answers 400 to a body with %s, and logs nothing', async (_title, body) => {
    const answer = await sendCharge(url, reference, body);

    expect(answer.status).toBe(400);
    expect(answer.json<{ error: string }>().error).toMatch(/\w/);
    expect(await processor.chargesOf(reference)).toEqual([]);
    expect((await lookUpCharge(url, reference)).status).toBe(404);
  });

  it('answers 400 when there is no Idempotency-Key, or an empty one', async () => {
    const count = (await processor.charges()).length;
    const headers = { 'Content-Type': 'application/json' };
    const missing = await ask(`${url}/charges`, { method: 'POST', headers, body: JSON.stringify(USUAL_CHARGE) });

    expect(missing.status).toBe(400);
    expect(missing.json<{ error: string }>().error).toContain('idempotency-key');
    expect((await sendCharge(url, '')).status).toBe(400);
    expect(await processor.charges()).toHaveLength(count);
  });

  it('says in JSON that it has nothing else', async () => {
    const answer = await ask(`${url}/payments`);
    expect([answer.status, answer.json()]).toEqual([404, { error: 'no such route' }]);
  });
});
