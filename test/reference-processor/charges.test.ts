import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { USUAL_BEHAVIOUR } from '#idempay/reference-processor/behaviour.js';
import type { ChargeLog } from '#idempay/reference-processor/charge-log.js';
import { createCharges } from '#idempay/reference-processor/charges.js';
import { ask, sendJson } from '../../testkit/client/http-client.js';
import { untilAtWork, untilCharged } from '../../testkit/deployments/processor-environment.js';
import {
  type Behaviour,
  changeBehaviour,
  lookUpCharge,
  type ProcessorInProcess,
  sendCharge,
  serveReferenceProcessor,
  USUAL_CHARGE,
} from '../../testkit/processes/reference-processor.js';
import { seededRandom } from '../../testkit/random.js';
import { until } from '../../testkit/time/until.js';

/** Longer than any test here runs. */
const ENDLESS_MS = 60_000;
const DEADLINE_MS = 10_000;
/** Long enough to be told from no delay at all. */
const DELAY_MS = 150;
const SUCCEEDED = { status: 'succeeded' };
const DECLINED = { status: 'declined', reason: 'insufficient funds' };

let processor: ProcessorInProcess;
let url: string;
let reference: string;

beforeAll(async () => {
  processor = await serveReferenceProcessor();
  url = processor.url;
});
afterAll(() => processor?.close());
beforeEach(async () => {
  await processor.behave(USUAL_BEHAVIOUR);
  reference = randomUUID();
});

async function charge(body?: unknown, of = reference): Promise<[status: number, body: unknown]> {
  const answer = await sendCharge(url, of, body);
  return [answer.status, answer.json()];
}

async function lookUp(of = reference): Promise<[status: number, body: unknown]> {
  const answer = await lookUpCharge(url, of);
  return [answer.status, answer.json()];
}

async function givenDeclined(): Promise<string> {
  const declined = randomUUID();
  await processor.behave({ declineRate: 1 });
  expect(await charge(USUAL_CHARGE, declined)).toEqual([402, DECLINED]);
  await processor.behave({ declineRate: 0 });
  return declined;
}

const expectCharges = async (count: number) => expect(await processor.chargesOf(reference)).toHaveLength(count);

describe('the reference processor', () => {
  it('answers 201 to a charge that succeeded, and its log has every member as it was sent', async () => {
    const before = Date.now();
    const sent = { transactionId: 'TXN1', amount: '0100.500', currency: 'JPY' };
    expect(await charge(sent)).toEqual([201, SUCCEEDED]);

    const [line, ...others] = await processor.chargesOf(reference);
    expect(others).toEqual([]);
    const { at, ...rest } = line ?? { at: '' };
    expect(rest).toEqual({ reference, ...sent, ...SUCCEEDED });
    expect(new Date(at).toISOString()).toBe(at);
    expect(Date.parse(at)).toBeGreaterThanOrEqual(before);
  });

  it('answers a repeat and a look-up with the same outcome, also a decline, and logs nothing', async () => {
    await charge();
    const declined = await givenDeclined();
    expect(await processor.chargesOf(declined)).toMatchObject([{ ...USUAL_CHARGE, ...DECLINED }]);
    expect(await charge(USUAL_CHARGE, declined)).toEqual([402, DECLINED]);
    expect(await lookUp(declined)).toEqual([200, DECLINED]);
    await processor.behave({ declineRate: 1 });
    expect(await charge()).toEqual([201, SUCCEEDED]);
    expect(await lookUp()).toEqual([200, SUCCEEDED]);
    expect((await lookUp(randomUUID()))[0]).toBe(404);
    await expectCharges(1);
    expect(await processor.chargesOf(declined)).toHaveLength(1);
  });

  it.each([
    ['transaction id', { transactionId: 'TXN2' }],
    ['amount', { amount: '100.5' }],
    ['currency', { currency: 'EUR' }],
  ])('answers 422 to a known reference with another %s, and logs nothing', async (_member, change) => {
    await charge();
    expect(await charge({ ...USUAL_CHARGE, ...change })).toEqual([422, { error: expect.any(String) }]);
    await expectCharges(1);
  });

  it('answers 409 to a repeat and to a look-up while the charge is at work', async () => {
    await processor.behave({ latencyMs: ENDLESS_MS });
    void sendCharge(url, reference).catch(() => {});
    await untilAtWork(processor, reference);
    expect((await charge())[0]).toBe(409);
    await expectCharges(0);
  });

  it('charges once when the same charge arrives many times at the same moment', async () => {
    const answers = await Promise.all(Array.from({ length: 50 }, () => sendCharge(url, reference)));
    const statuses = new Set(answers.map(({ status }) => status));
    expect([201, 409]).toEqual(expect.arrayContaining([...statuses]));
    expect(statuses).toContain(201);
    await expectCharges(1);
  });

  it.each(['a/b?c=d#e%20f', '"quoted"', '/'.repeat(255)])(
    'takes any visible reference of up to 255 characters, in the header as in the path: %s',
    async (odd) => {
      expect((await charge(USUAL_CHARGE, odd))[0]).toBe(201);
      expect((await lookUp(odd))[0]).toBe(200);
      expect(await processor.chargesOf(odd)).toHaveLength(1);
    },
  );

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
    expect(await charge(body)).toEqual([400, { error: expect.stringMatching(/\w/) }]);
    await expectCharges(0);
    expect((await lookUp())[0]).toBe(404);
  });

  it('answers 400 when there is no Idempotency-Key, or an empty one, or one of 256 characters', async () => {
    const count = (await processor.charges()).length;
    const missing = await sendJson(`${url}/charges`, 'POST', USUAL_CHARGE);
    expect(missing.status).toBe(400);
    expect(missing.json<{ error: string }>().error).toContain('idempotency-key');
    for (const bad of ['', 'x'.repeat(256)]) expect((await charge(USUAL_CHARGE, bad))[0]).toBe(400);
    expect(await processor.charges()).toHaveLength(count);
  });

  it('answers 404 in JSON to any other path', async () => {
    const answer = await ask(`${url}/payments`);
    expect([answer.status, answer.json()]).toEqual([404, { error: 'no such route' }]);
  });
});

describe('the behaviour of the reference processor', () => {
  const shown = async () => (await ask(`${url}/behaviour`)).json<Behaviour>();

  it('is shown whole, and changed member by member', async () => {
    expect(await shown()).toEqual(USUAL_BEHAVIOUR);
    const answer = await changeBehaviour(url, { declineRate: 0.25, refuseWith: 503 });
    const expected = { ...USUAL_BEHAVIOUR, declineRate: 0.25, refuseWith: 503 };
    expect([answer.status, answer.json()]).toEqual([200, expected]);
    expect(await shown()).toEqual(expected);
  });

  it.each<[string, unknown]>([
    ['latencyMs', -1],
    ['latencyMs', 0.5],
    ['replyLatencyMs', 2_147_483_648],
    ['declineRate', 1.01],
    ['failRate', -0.1],
    ['lostReplyRate', '0.5'],
    ['deduplicate', 'false'],
    ['refuseWith', 302],
    ['refuseWith', '503'],
    ['latency', 5],
    ['toString', 5],
  ])('is not changed by a bad member, which is named: %s = %j', async (name, value) => {
    const answer = await changeBehaviour(url, { declineRate: 1, [name]: value });
    expect([answer.status, answer.json()]).toEqual([400, { error: expect.stringContaining(`'${name}'`) }]);
    expect(await shown()).toEqual(USUAL_BEHAVIOUR);
  });

  it.each([[null], [[]], [5], ['declineRate']])('is not changed by %j, which is no object', async (patch) => {
    expect((await changeBehaviour(url, patch)).status).toBe(400);
    expect(await shown()).toEqual(USUAL_BEHAVIOUR);
  });

  it('delays a charge before it is logged', async () => {
    await processor.behave({ latencyMs: DELAY_MS });
    const sentAt = Date.now();
    expect((await charge())[0]).toBe(201);
    const [line] = await processor.chargesOf(reference);
    // A timer may fire a millisecond early.
    expect(Date.parse(line?.at ?? '') - sentAt).toBeGreaterThanOrEqual(DELAY_MS - 2);
  });

  it('delays a reply after the charge is logged: meanwhile a repeat and a look-up get the outcome', async () => {
    await processor.behave({ replyLatencyMs: ENDLESS_MS });
    void sendCharge(url, reference).catch(() => {});
    await untilCharged(processor, reference);
    await until('its outcome', DEADLINE_MS, async () => (await lookUp())[0] === 200);
    expect((await charge())[0]).toBe(201);
    await expectCharges(1);
  });

  it('that fails answers 500, charges nothing, and takes the charge later', async () => {
    await processor.behave({ failRate: 1 });
    expect((await charge())[0]).toBe(500);
    expect((await lookUp())[0]).toBe(404);
    await expectCharges(0);
    await processor.behave({ failRate: 0 });
    expect((await charge())[0]).toBe(201);
    await expectCharges(1);
  });

  it('that loses replies charges and logs, and cuts the connection', async () => {
    await processor.behave({ lostReplyRate: 1 });
    await expect(sendCharge(url, reference)).rejects.toThrow(/socket hang up|ECONNRESET/);
    await expectCharges(1);
    expect(await lookUp()).toEqual([200, SUCCEEDED]);
    expect((await charge())[0]).toBe(201);
    await expectCharges(1);
  });

  it('without deduplication charges again for every request, and hides no charge behind a later decline', async () => {
    await processor.behave({ deduplicate: false });
    const answers = await Promise.all(Array.from({ length: 5 }, () => charge()));
    answers.push(await charge({ ...USUAL_CHARGE, amount: '7' }));
    expect(answers.map(([status]) => status)).toEqual([201, 201, 201, 201, 201, 201]);
    await expectCharges(6);
    await processor.behave({ declineRate: 1 });
    expect((await charge())[0]).toBe(402);
    expect(await lookUp()).toEqual([200, SUCCEEDED]);
  });

  it.each([401, 403, 404, 503])(
    'that refuses answers %i to every charge and look-up, and nothing is charged',
    async (status) => {
      const known = randomUUID();
      await charge(USUAL_CHARGE, known);
      await processor.behave({ refuseWith: status });
      for (const answer of [
        await charge(),
        await charge(USUAL_CHARGE, known),
        await charge('no JSON'),
        await lookUp(known),
      ]) {
        expect(answer).toEqual([status, { error: `refused with ${status}` }]);
      }
      await expectCharges(0);
    },
  );

  it('is that of its arrival for a charge, whatever changes meanwhile', async () => {
    await processor.behave({ latencyMs: DELAY_MS });
    const answer = charge();
    await untilAtWork(processor, reference);
    await processor.behave({ declineRate: 1, lostReplyRate: 1 });
    expect((await answer)[0]).toBe(201);
  });

  it('goes on with a charge whose client has gone', async () => {
    await processor.behave({ latencyMs: DELAY_MS });
    const leaving = new AbortController();
    const gone = fetch(`${url}/charges`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'Idempotency-Key': reference },
      body: JSON.stringify(USUAL_CHARGE),
      signal: leaving.signal,
    });
    await untilAtWork(processor, reference);
    leaving.abort();
    await expect(gone).rejects.toThrow();
    await untilCharged(processor, reference);
  });

  it('meets the share of charges that its rates say', async () => {
    const log: ChargeLog = { earlier: [], append: async () => {}, broken: new Promise(() => {}) };
    const charges = createCharges(log, seededRandom(1).fraction);
    const behaviour = { ...USUAL_BEHAVIOUR, failRate: 0.5, declineRate: 0.2 };
    const results = await Promise.all(
      Array.from({ length: 1000 }, (_, index) => charges.charge({ reference: `${index}`, ...USUAL_CHARGE }, behaviour)),
    );
    const failed = results.filter(({ kind }) => kind === 'failed').length;
    const declined = results.filter((result) => result.kind === 'new' && result.outcome.status === 'declined').length;
    expect(Math.abs(failed - 500)).toBeLessThan(60);
    expect(Math.abs(declined - 100)).toBeLessThan(40);
  });
});
