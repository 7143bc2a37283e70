import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { USUAL_BEHAVIOUR } from '#idempay/reference-processor/behaviour.js';
import { ask, sendJson } from '../../testkit/client/http-client.js';
import { REACHED_DEADLINE_MS } from '../../testkit/deployments/processor-environment.js';
import {
  lookUpCharge,
  type ProcessorInProcess,
  sendCharge,
  serveReferenceProcessor,
  USUAL_CHARGE,
} from '../../testkit/processes/reference-processor.js';
import { until } from '../../testkit/time/until.js';

const RETURN_URL = 'https://shop.example/back?order=1&x="y"';
const WITH_PAYER = { ...USUAL_CHARGE, returnUrl: RETURN_URL };
const ENDED = { status: 'declined', reason: 'ended by the shop' };
const REFUSED = { status: 'declined', reason: 'the payer refused' };
const LATE = { status: 'declined', reason: 'the payer did not confirm in time' };
const DELAY_MS = 1_000;

interface Body {
  readonly status: string;
  readonly id: string;
  readonly until: string;
  readonly action: { readonly url: string };
}

let processor: ProcessorInProcess;
let url: string;
let reference: string;
beforeAll(async () => {
  processor = await serveReferenceProcessor();
  url = processor.url;
});
afterAll(() => processor?.close());
beforeEach(async () => {
  await processor.behave({ ...USUAL_BEHAVIOUR, pendingRate: 1 });
  reference = randomUUID();
});

const charge = async (body: object = WITH_PAYER, of = reference) => {
  const answer = await sendCharge(url, of, body);
  return [answer.status, answer.json<Body>()] as const;
};
const lookUp = async (of = reference) => {
  const answer = await lookUpCharge(url, of);
  return [answer.status, answer.json<Body>()] as const;
};
const { transactionId, amount, currency } = USUAL_CHARGE;
const end = async (of = reference, more: object = {}) => {
  const answer = await sendJson(`${url}/charges/${of}/ending`, 'POST', { transactionId, amount, currency, ...more });
  expect(answer.headers['idempay-contract']).toBe('3');
  return [answer.status, answer.json<Body>()] as const;
};
const decide = (decision: string, of = reference) => ask(`${url}/pending/${of}/${decision}`, { method: 'POST' });
const statuses = async (of = reference) => (await processor.linesOf(of)).map(({ status }) => status);
/** Acts as a browser does, but follows no redirect to the shop, which does not exist. */
const act = (page: string, decision: string) =>
  fetch(`${page}/${decision}`, { method: 'POST', body: new URLSearchParams(), redirect: 'manual' });

describe('a charge with a return address at the reference processor', () => {
  it('waits for its payer, and names itself, its end and a page on this machine, also in a repeat and a look-up', async () => {
    const [status, body] = await charge();
    expect([status, body]).toMatchObject([202, { status: 'pending', reference, ...USUAL_CHARGE }]);
    expect(body.id).toMatch(/^[0-9a-f-]{36}$/);
    const leftMs = Date.parse(body.until) - Date.now();
    expect([leftMs > 3_500_000, leftMs <= 3_600_000]).toEqual([true, true]);
    expect(body.action.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/pages\/[0-9a-f-]{36}$/);
    expect(await charge()).toEqual([202, body]);
    expect(await lookUp()).toEqual([200, body]);
    expect((await charge({ ...WITH_PAYER, returnUrl: 'https://other.example' }))[0]).toBe(422);
    expect(await statuses()).toEqual(['pending']);
  });

  it('succeeds at once without a return address, and if no charge is to wait', async () => {
    expect((await charge(USUAL_CHARGE))[0]).toBe(201);
    await processor.behave({ pendingRate: 0 });
    expect((await charge(WITH_PAYER, randomUUID()))[0]).toBe(201);
    for (const bad of ['javascript:alert(1)', 'https://a b', '/back', 5]) {
      expect((await charge({ ...WITH_PAYER, returnUrl: bad }, randomUUID()))[0]).toBe(400);
    }
  });

  it('is confirmed or refused on its page, which then leads back to the shop, and the first decision counts', async () => {
    const [, { action, id }] = await charge();
    const page = await fetch(action.url);
    expect(page.headers.get('content-type')).toContain('text/html');
    expect(await page.text()).toMatch(/100\.50 USD[\s\S]*\/confirm"[\s\S]*\/refuse"/);
    const confirmed = await act(action.url, 'confirm');
    expect([confirmed.status, confirmed.headers.get('location')]).toEqual([303, RETURN_URL]);
    expect((await act(action.url, 'refuse')).status).toBe(303);
    expect(await lookUp()).toMatchObject([200, { status: 'succeeded', id, ...USUAL_CHARGE }]);
    expect(await charge()).toMatchObject([201, { id }]);
    const over = await (await fetch(action.url)).text();
    expect(over).toContain('has succeeded. <a href="https://shop.example/back?order=1&#38;x=&#34;y&#34;">');
    expect(over).not.toContain('<form');
    expect(await statuses()).toEqual(['pending', 'succeeded']);
  });

  it('is decided by a script that knows its reference, and listed until then', async () => {
    const [, { action, until, id }] = await charge();
    const listed = (await ask(`${url}/pending`)).json<{ reference: string }[]>();
    const line = { reference, id, amount, currency, until, url: action.url };
    expect(listed.filter((each) => each.reference === reference)).toEqual([line]);
    expect((await decide('refuse')).json()).toEqual({ reference, status: 'declined' });
    expect(await lookUp()).toMatchObject([200, { ...REFUSED, id }]);
    expect(await charge()).toMatchObject([402, REFUSED]);
    expect((await ask(`${url}/pending`)).text).not.toContain(reference);
    for (const [decision, of] of [
      ['confirm', randomUUID()],
      ['else', reference],
      ['toString', reference],
    ] as const) {
      expect((await decide(decision, of)).status).toBe(404);
    }
    expect((await fetch(action.url.replace(/.$/, 'x'))).status).toBe(404);
  });

  it('expires when a script says so, or when its time is over', async () => {
    await charge();
    expect((await decide('expire')).json()).toMatchObject({ status: 'declined' });
    expect(await lookUp()).toMatchObject([200, LATE]);
    reference = randomUUID();
    await processor.behave({ pendingMs: 1 });
    const [, { action }] = await charge();
    await act(action.url, 'confirm');
    expect(await lookUp()).toMatchObject([200, LATE]);
    expect(await statuses()).toEqual(['pending', 'declined']);
    reference = randomUUID();
    await charge();
    await expect.poll(() => lookUp()).toMatchObject([200, LATE]);
    expect(await charge()).toMatchObject([402, LATE]);
  });

  it('survives a restart with its page, and so does its outcome', async () => {
    const [, { action, id, until }] = await charge();
    const ended = randomUUID();
    await end(ended);
    await processor.restart();
    expect(await lookUp()).toMatchObject([200, { status: 'pending', id, until }]);
    expect(await charge(WITH_PAYER, ended)).toMatchObject([402, ENDED]);
    await act(action.url, 'confirm');
    await processor.restart();
    expect(await lookUp()).toMatchObject([200, { status: 'succeeded', id }]);
  });
});

describe('an ending at the reference processor', () => {
  it('before its charge declines it, whatever its content is', async () => {
    expect(await end()).toMatchObject([200, { ...ENDED, reference, ...USUAL_CHARGE }]);
    expect(await end()).toMatchObject([200, ENDED]);
    expect(await charge({ ...WITH_PAYER, source: 'tok_1' })).toMatchObject([402, ENDED]);
    expect(await lookUp()).toMatchObject([200, ENDED]);
    expect(await statuses()).toEqual(['declined']);
  });

  it('while its charge is at work declines it, and no look-up says anything else', async () => {
    await processor.behave({ latencyMs: DELAY_MS });
    const { underWay, ended } = await until('an ending while the charge is at work', REACHED_DEADLINE_MS, async () => {
      // A machine that pauses may end the charge too late.
      reference = randomUUID();
      const underWay = charge(USUAL_CHARGE);
      await until('the charge to arrive', REACHED_DEADLINE_MS, async () => (await lookUp())[0] !== 404);
      const ended = await end();
      return ended[1].status !== 'succeeded' && { underWay, ended };
    });
    expect(ended).toMatchObject([200, ENDED]);
    expect(await lookUp()).toMatchObject([200, ENDED]);
    expect(await underWay).toMatchObject([402, ENDED]);
    expect(await statuses()).toEqual(['declined']);
  });

  it('of a pending charge declines it, and its page charges nothing any more', async () => {
    const [, { action, id }] = await charge();
    expect(await end(reference, { id })).toMatchObject([200, { ...ENDED, id }]);
    await act(action.url, 'confirm');
    expect(await lookUp()).toMatchObject([200, { ...ENDED, id }]);
    expect(await charge()).toMatchObject([402, ENDED]);
    expect(await statuses()).toEqual(['pending', 'declined']);
  });

  it('after a charge is answered with its outcome', async () => {
    const [, { id }] = await charge(USUAL_CHARGE);
    expect(await end()).toMatchObject([200, { status: 'succeeded', id }]);
    const declined = randomUUID();
    await processor.behave({ declineRate: 1 });
    await charge(USUAL_CHARGE, declined);
    expect(await end(declined)).toMatchObject([200, { status: 'declined', reason: 'insufficient funds' }]);
    expect(await statuses()).toEqual(['succeeded']);
  });

  it('at the same moment as decisions and charges leaves one outcome', async () => {
    for (let round = 0; round < 20; round += 1) {
      reference = randomUUID();
      const isPending = round % 2 === 0;
      if (isPending) await charge();
      const [[, ended]] = await Promise.all([end(), isPending ? decide('confirm') : charge(USUAL_CHARGE)]);
      expect((await lookUp())[1]).toMatchObject({ status: ended.status });
      expect((await statuses()).filter((status) => status !== 'pending')).toEqual([ended.status]);
    }
  });

  it('is refused with another amount, or with no amount, and answered as the behaviour says', async () => {
    await charge();
    expect((await end(reference, { amount: '7.00' }))[0]).toBe(422);
    expect((await end(reference, { amount: 7 }))[0]).toBe(400);
    for (const endWith of [409, 425]) {
      await processor.behave({ endWith });
      expect(await end()).toMatchObject([endWith, { reference }]);
    }
    expect((await lookUp())[1]).toMatchObject({ status: 'pending' });
    await processor.behave({ endWith: null, lostReplyRate: 1 });
    await expect(end()).rejects.toThrow();
    await processor.behave({ lostReplyRate: 0, refuseWith: 503 });
    expect((await end())[0]).toBe(503);
    await processor.behave({ refuseWith: null });
    expect(await end()).toMatchObject([200, ENDED]);
  });
});
