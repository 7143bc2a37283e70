import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { appendFile, readFile } from 'node:fs/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { USUAL_BEHAVIOUR } from '#idempay/reference-processor/behaviour.js';
import { readHead } from '#idempay/statements/format.js';
import { readStatement } from '#idempay/statements/statement.js';
import { ask } from '../../testkit/client/http-client.js';
import { REACHED_DEADLINE_MS } from '../../testkit/deployments/processor-environment.js';
import {
  lookUpCharge,
  lookUpRefund,
  type ProcessorInProcess,
  sendCharge,
  sendRefund,
  serveReferenceProcessor,
} from '../../testkit/processes/reference-processor.js';
import { until } from '../../testkit/time/until.js';

/** A part of the usual charge, which is of 100.50. */
const PART = { transactionId: 'TXN1795170621886000522919', amount: '40.25', currency: 'USD' };
const DELAY_MS = 1_000;

interface Body {
  readonly status: string;
  readonly id: string;
  readonly until: string;
  readonly reason: string;
  readonly error: string;
}

let processor: ProcessorInProcess;
let url: string;
/** Charged before each test. */
let charge: string;
let reference: string;
beforeAll(async () => {
  processor = await serveReferenceProcessor();
  url = processor.url;
});
afterAll(() => processor?.close());
beforeEach(async () => {
  await processor.behave(USUAL_BEHAVIOUR);
  [charge, reference] = [randomUUID(), randomUUID()];
  await sendCharge(url, charge);
});

async function refund(more: object = {}, of = reference) {
  const answer = await sendRefund(url, of, { charge, ...PART, ...more });
  expect(answer.headers['idempay-contract']).toBe('3');
  return [answer.status, answer.json<Body>()] as const;
}
async function lookUp(of = reference, ofCharge = charge) {
  const answer = await lookUpRefund(url, of, ofCharge);
  expect(answer.headers['idempay-contract']).toBe('3');
  return [answer.status, answer.json<Body>()] as const;
}
const decide = (decision: string, of = reference) => ask(`${url}/pending/${of}/${decision}`, { method: 'POST' });
const linesOf = async (of = reference) => (await processor.refunds()).filter((line) => line.reference === of);
const declined = (reason: string) => [402, { status: 'declined', reason }];

describe('a refund at the reference processor', () => {
  it('is given back once, names itself and its charge, and is logged with the reason of the shop', async () => {
    const [status, body] = await refund({ reason: 'a shoe came back', id: 'pi_1' });
    const about = { reference, charge, ...PART };
    expect([status, body]).toEqual([
      201,
      { status: 'succeeded', id: expect.stringMatching(/^[0-9a-f-]{36}$/), ...about },
    ]);
    expect(await refund()).toEqual([201, body]);
    expect(await lookUp()).toEqual([200, body]);
    const at = expect.stringMatching(/Z$/);
    expect(await linesOf()).toEqual([{ ...body, type: 'refund', purpose: 'a shoe came back', at }]);
    expect((await lookUpCharge(url, charge)).json()).toMatchObject({ status: 'succeeded', amount: '100.50' });
  });

  it('is given back once also if it is sent again after a restart, and if its reply was lost', async () => {
    await processor.behave({ lostReplyRate: 1 });
    await expect(refund()).rejects.toThrow(/socket hang up|ECONNRESET/);
    await processor.restart({ lostReplyRate: 0 });
    const [status, body] = await lookUp();
    expect([status, body.status]).toEqual([200, 'succeeded']);
    expect(await refund()).toEqual([201, body]);
    expect(await linesOf()).toHaveLength(1);
    expect((await refund({ amount: '60.26' }, randomUUID()))[0]).toBe(402);
    expect((await refund({ amount: '60.25' }, randomUUID()))[0]).toBe(201);
  });

  it('is never more than what is left of its charge, also if many come at once', async () => {
    const references = Array.from({ length: 20 }, () => randomUUID());
    const answers = await Promise.all(references.map((of) => refund({ amount: '10.05' }, of)));
    expect(answers.filter(([status]) => status === 201)).toHaveLength(10);
    expect(answers.find(([status]) => status === 402)).toMatchObject(declined('more than is left of the charge'));
    expect(await refund({ amount: '0.000000000000000001' })).toMatchObject(declined('more than is left of the charge'));
    // A decline is final as well.
    expect(await lookUp()).toMatchObject([200, { status: 'declined', reference, charge }]);
  });

  it('is declined if there is no such charge, it has another currency, or has not succeeded', async () => {
    expect(await refund({ charge: randomUUID() })).toMatchObject(declined('there is no such charge'));
    expect(await refund({ currency: 'EUR' }, randomUUID())).toMatchObject(declined('the charge is in USD'));
    const refused = randomUUID();
    await processor.behave({ declineRate: 1 });
    await sendCharge(url, refused);
    expect(await refund({ charge: refused }, randomUUID())).toMatchObject(declined('there is no such charge'));
    expect(await refund({}, randomUUID())).toMatchObject(declined('the card was closed'));
    expect(await processor.linesOf(refused)).toHaveLength(1);
  });

  it('has no record before it came, nor as a refund of another charge, nor as a charge', async () => {
    expect(await lookUp()).toMatchObject([404, { error: 'no record of this refund', reference }]);
    await refund();
    expect((await lookUp(reference, randomUUID()))[0]).toBe(404);
    expect((await lookUpCharge(url, reference)).status).toBe(404);
    expect((await lookUp(charge))[0]).toBe(404);
    expect((await ask(`${url}/refunds/${reference}`)).status).toBe(400);
  });

  it('is another refund with another charge or other money: 422, and nothing is given back', async () => {
    await refund();
    for (const change of [{ charge: randomUUID() }, { amount: '40' }, { currency: 'EUR' }, { transactionId: 'TXN2' }]) {
      expect(await refund(change)).toMatchObject([
        422,
        { error: 'this reference belongs to another refund', reference },
      ]);
    }
    for (const bad of [{ charge: undefined }, { amount: 40.25 }, { currency: 'dollars' }, { transactionId: '' }]) {
      expect((await refund(bad, randomUUID()))[0]).toBe(400);
    }
    expect(await linesOf()).toHaveLength(1);
  });

  it('is at work until it is logged, and a failed one is none', async () => {
    const { underWay, repeat } = await until('a refund that is at work', REACHED_DEADLINE_MS, async () => {
      // Each time another charge, because a machine that pauses may look too late.
      [charge, reference] = [randomUUID(), randomUUID()];
      await processor.behave(USUAL_BEHAVIOUR);
      await sendCharge(url, charge);
      await processor.behave({ latencyMs: DELAY_MS });
      const underWay = refund();
      await until('the refund to arrive', REACHED_DEADLINE_MS, async () => (await lookUp())[0] !== 404);
      const repeat = await refund();
      return (await lookUp())[0] === 409 && { underWay, repeat };
    });
    expect(repeat).toMatchObject([409, { reference }]);
    expect((await underWay)[0]).toBe(201);
    await processor.behave({ latencyMs: 0, failRate: 1 });
    const failed = randomUUID();
    expect((await refund({}, failed))[0]).toBe(500);
    expect((await lookUp(failed))[0]).toBe(404);
    await processor.behave({ refuseWith: 401 });
    expect([(await refund())[0], (await lookUp())[0]]).toEqual([401, 401]);
  });

  it('is given back each time without deduplication, but never more than was charged', async () => {
    await processor.behave({ deduplicate: false });
    const answers = [await refund(), await refund(), await refund()];
    expect(answers.map(([status]) => status)).toEqual([201, 201, 402]);
    expect((await lookUp())[1].status).toBe('succeeded');
  });
});

describe('a pending refund at the reference processor', () => {
  beforeEach(() => processor.behave({ refundPendingRate: 1 }));

  it('has no action, counts as given back, survives a restart, and is decided by a script that knows its reference', async () => {
    const [status, body] = await refund();
    const about = { reference, charge, ...PART };
    expect([status, body]).toEqual([
      202,
      { status: 'pending', id: expect.any(String), until: expect.any(String), ...about },
    ]);
    await processor.restart();
    expect(await lookUp()).toEqual([200, body]);
    expect(await refund()).toEqual([202, body]);
    expect((await refund({ amount: '60.26' }, randomUUID()))[0]).toBe(402);
    const { id, until } = body;
    const { amount, currency } = PART;
    const listed = (await ask(`${url}/pending`)).json<{ reference: string }[]>();
    expect(listed.filter((each) => each.reference === reference)).toEqual([
      { reference, charge, id, amount, currency, until },
    ]);
    expect((await decide('confirm')).json()).toEqual({ reference, status: 'succeeded' });
    expect(await lookUp()).toEqual([200, { status: 'succeeded', id, ...about }]);
    expect((await decide('refuse')).json()).toEqual({ reference, status: 'succeeded' });
    expect((await linesOf()).map((line) => line.status)).toEqual(['pending', 'succeeded']);
  });

  it('that the bank refuses is declined, and its part can be given back by another refund', async () => {
    const [, { id }] = await refund({ amount: '100.50' });
    expect((await decide('refuse')).json()).toEqual({ reference, status: 'declined' });
    expect(await lookUp()).toMatchObject([200, { status: 'declined', reason: 'the bank refused', id }]);
    expect((await refund({ amount: '100.50' }))[0]).toBe(402);
    await processor.restart({ refundPendingRate: 0 });
    expect((await refund({ amount: '100.50' }, randomUUID()))[0]).toBe(201);
  });

  it('has succeeded when its time is over', async () => {
    await processor.behave({ pendingMs: 1 });
    await refund();
    await expect.poll(async () => (await lookUp())[1].status).toBe('succeeded');
    expect((await linesOf()).map(({ status }) => status)).toEqual(['pending', 'succeeded']);
  });
});

it('the log with refunds is read by a restart and by a reconciliation, and one that is no refund is refused', async () => {
  const own = await serveReferenceProcessor();
  try {
    await sendCharge(own.url, charge);
    await sendRefund(own.url, reference, { charge, ...PART });
    const text = await readFile(own.chargeLog, 'utf8');
    expect(text.split('\n')[1]).toMatch(/^\{"reference":"[0-9a-f-]{36}","type":"refund","charge":"/);
    const lines = text.trim().split('\n');
    const { format, columns } = readHead(lines);
    const { rows } = await readStatement({ bytes: createReadStream(own.chargeLog), format, columns });
    expect(rows.map(({ kind }) => kind)).toEqual(['payment', 'refund']);
    await own.restart();
    await appendFile(own.chargeLog, `${JSON.stringify({ ...JSON.parse(lines[1] as string), charge: undefined })}\n`);
    await expect(own.restart()).rejects.toThrow(/Line 3 of .* is not a charge/);
  } finally {
    await own.close();
  }
});
