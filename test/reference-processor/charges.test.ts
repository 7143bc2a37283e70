import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { USUAL_BEHAVIOUR } from '#idempay/reference-processor/behaviour.js';
import type { ChargeLog } from '#idempay/reference-processor/charge-log.js';
import { createCharges } from '#idempay/reference-processor/charges.js';
import { type Answer, ask, sendJson } from '../../testkit/client/http-client.js';
import { untilAtWork, untilCharged } from '../../testkit/deployments/processor-environment.js';
import {
  changeBehaviour,
  lookUpCharge,
  type ProcessorInProcess,
  sendCharge,
  serveReferenceProcessor,
  USUAL_CHARGE,
} from '../../testkit/processes/reference-processor.js';
import { seededRandom } from '../../testkit/random.js';

/** Longer than any test here runs. */
const ENDLESS_MS = 60_000;
/** Long enough to be told from no delay at all. */
const DELAY_MS = 150;
const SUCCEEDED = [201, { status: 'succeeded' }];
const DECLINED = { status: 'declined', reason: 'insufficient funds' };
const FOUND = [200, { status: 'succeeded' }];

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

type Shown = [status: number, body: unknown];
const shownOf = (answer: Answer): Shown => [answer.status, answer.json()];
const charge = async (body?: unknown, of = reference) => shownOf(await sendCharge(url, of, body));
const lookUp = async (of = reference) => shownOf(await lookUpCharge(url, of));
const expectCharges = async (count: number) => expect(await processor.chargesOf(reference)).toHaveLength(count);

describe('the reference processor', () => {
  it('answers 201 to a charge that succeeded, and its log has every member as it was sent', async () => {
    const before = Date.now();
    const sent = { transactionId: 'TXN1', amount: '0100.500', currency: 'JPY' };
    expect(await charge(sent)).toEqual(SUCCEEDED);
    const at = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    const lines = await processor.chargesOf(reference);
    expect(lines).toEqual([{ reference, ...sent, status: 'succeeded', at }]);
    expect(Date.parse(lines[0]?.at ?? '')).toBeGreaterThanOrEqual(before);
  });

  it('answers a repeat and a look-up with the same outcome, also a decline, and logs nothing', async () => {
    const declined = randomUUID();
    await charge();
    await processor.behave({ declineRate: 1 });
    for (const _ of ['first', 'repeat']) expect(await charge(USUAL_CHARGE, declined)).toEqual([402, DECLINED]);
    expect(await charge()).toEqual(SUCCEEDED);
    await processor.behave({ declineRate: 0 });
    expect(await charge(USUAL_CHARGE, declined)).toEqual([402, DECLINED]);
    expect(await lookUp(declined)).toEqual([200, DECLINED]);
    expect(await lookUp()).toEqual(FOUND);
    expect(await lookUp(randomUUID())).toMatchObject([404, {}]);
    await expectCharges(1);
    expect(await processor.chargesOf(declined)).toMatchObject([{ ...USUAL_CHARGE, ...DECLINED }]);
  });

  it('answers 422 to a known reference with another member, and logs nothing', async () => {
    await charge();
    for (const change of [{ transactionId: 'TXN2' }, { amount: '100.5' }, { currency: 'EUR' }]) {
      expect(await charge({ ...USUAL_CHARGE, ...change })).toEqual([422, { error: expect.any(String) }]);
    }
    await expectCharges(1);
  });

  it('answers 409 to a repeat and to a look-up while the charge is at work', async () => {
    await processor.behave({ latencyMs: ENDLESS_MS });
    void sendCharge(url, reference).catch(() => {});
    await untilAtWork(processor, reference);
    expect(await charge()).toMatchObject([409, {}]);
    await expectCharges(0);
  });

  it('charges once when the same charge arrives many times at the same moment', async () => {
    const answers = await Promise.all(Array.from({ length: 50 }, () => charge()));
    const statuses = new Set(answers.map(([status]) => status));
    expect([201, 409]).toEqual(expect.arrayContaining([...statuses]));
    expect(statuses).toContain(201);
    await expectCharges(1);
  });

  it.each(['a/b?c=d#e%20f', '"quoted"', '/'.repeat(255)])(
    'takes any visible reference of up to 255 characters, in the header as in the path: %s',
    async (odd) => {
      expect(await charge(USUAL_CHARGE, odd)).toEqual(SUCCEEDED);
      expect(await lookUp(odd)).toEqual(FOUND);
      expect(await processor.chargesOf(odd)).toHaveLength(1);
    },
  );

  it.each<[string, unknown]>([
    ...Object.keys(USUAL_CHARGE).map((name): [string, unknown] => [
      `no ${name}`,
      { ...USUAL_CHARGE, [name]: undefined },
    ]),
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
    expect(await lookUp()).toMatchObject([404, {}]);
  });

  it('answers 400 when there is no Idempotency-Key, or an empty one, or one of 256 characters', async () => {
    const count = (await processor.charges()).length;
    const missing = shownOf(await sendJson(`${url}/charges`, 'POST', USUAL_CHARGE));
    expect(missing).toEqual([400, { error: expect.stringContaining('idempotency-key') }]);
    for (const bad of ['', 'x'.repeat(256)]) expect(await charge(USUAL_CHARGE, bad)).toMatchObject([400, {}]);
    expect(await processor.charges()).toHaveLength(count);
  });

  it('answers 404 in JSON to any other path', async () => {
    expect(shownOf(await ask(`${url}/payments`))).toEqual([404, { error: 'no such route' }]);
  });
});

describe('the behaviour of the reference processor', () => {
  const shown = async () => shownOf(await ask(`${url}/behaviour`));
  const changed = async (patch: unknown) => shownOf(await changeBehaviour(url, patch));

  it('is shown whole, and changed member by member, by an object only', async () => {
    for (const patch of [null, [], 5, 'declineRate']) expect(await changed(patch)).toMatchObject([400, {}]);
    expect(await shown()).toEqual([200, USUAL_BEHAVIOUR]);
    const expected = [200, { ...USUAL_BEHAVIOUR, declineRate: 0.25, refuseWith: 503 }];
    expect(await changed({ declineRate: 0.25, refuseWith: 503 })).toEqual(expected);
    expect(await shown()).toEqual(expected);
  });

  it.each<[string, unknown[]]>([
    ['latencyMs', [-1, 0.5]],
    ['replyLatencyMs', [2_147_483_648]],
    ['declineRate', [1.01]],
    ['failRate', [-0.1]],
    ['lostReplyRate', ['0.5']],
    ['deduplicate', ['false']],
    ['refuseWith', [302, '503']],
    ['latency', [5]],
    ['toString', [5]],
  ])('is not changed by a bad member, which is named: %s = %j', async (name, values) => {
    const refusal = [400, { error: expect.stringContaining(`'${name}'`) }];
    for (const value of values) expect(await changed({ declineRate: 1, [name]: value })).toEqual(refusal);
    expect(await shown()).toEqual([200, USUAL_BEHAVIOUR]);
  });

  it('delays a charge before it is logged, and is that of its arrival, whatever changes meanwhile', async () => {
    await processor.behave({ latencyMs: DELAY_MS });
    const sentAt = Date.now();
    const answer = charge();
    await untilAtWork(processor, reference);
    await processor.behave({ declineRate: 1, lostReplyRate: 1 });
    expect(await answer).toEqual(SUCCEEDED);
    const [line] = await processor.chargesOf(reference);
    // A timer may fire a millisecond early.
    expect(Date.parse(line?.at ?? '') - sentAt).toBeGreaterThanOrEqual(DELAY_MS - 2);
  });

  it('delays a reply after the charge is logged: meanwhile a repeat and a look-up get the outcome', async () => {
    await processor.behave({ replyLatencyMs: ENDLESS_MS });
    void sendCharge(url, reference).catch(() => {});
    await untilCharged(processor, reference);
    await expect.poll(() => lookUp()).toEqual(FOUND);
    expect(await charge()).toEqual(SUCCEEDED);
    await expectCharges(1);
  });

  it('that fails answers 500, charges nothing, and takes the charge later', async () => {
    await processor.behave({ failRate: 1 });
    expect(await charge()).toMatchObject([500, {}]);
    expect(await lookUp()).toMatchObject([404, {}]);
    await expectCharges(0);
    await processor.behave({ failRate: 0 });
    expect(await charge()).toEqual(SUCCEEDED);
    await expectCharges(1);
  });

  it('that loses replies charges and logs, and cuts the connection', async () => {
    await processor.behave({ lostReplyRate: 1 });
    await expect(sendCharge(url, reference)).rejects.toThrow(/socket hang up|ECONNRESET/);
    await expectCharges(1);
    expect(await lookUp()).toEqual(FOUND);
    expect(await charge()).toEqual(SUCCEEDED);
    await expectCharges(1);
  });

  it('without deduplication charges again for every request, and hides no charge behind a later decline', async () => {
    await processor.behave({ deduplicate: false });
    const again = Array.from({ length: 5 }, () => charge());
    const answers = await Promise.all([...again, charge({ ...USUAL_CHARGE, amount: '7' })]);
    expect(answers).toEqual(answers.map(() => SUCCEEDED));
    await expectCharges(6);
    await processor.behave({ declineRate: 1 });
    expect(await charge()).toEqual([402, DECLINED]);
    expect(await lookUp()).toEqual(FOUND);
  });

  it.each([401, 503])('that refuses answers %i to every charge and look-up, and nothing is charged', async (status) => {
    const known = randomUUID();
    await charge(USUAL_CHARGE, known);
    await processor.behave({ refuseWith: status });
    const answers = [await charge(), await charge(USUAL_CHARGE, known), await charge('no JSON'), await lookUp(known)];
    for (const answer of answers) expect(answer).toEqual([status, { error: `refused with ${status}` }]);
    await expectCharges(0);
  });

  it('goes on with a charge whose client has gone', async () => {
    await processor.behave({ latencyMs: DELAY_MS });
    const leaving = new AbortController();
    const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': reference };
    const body = JSON.stringify(USUAL_CHARGE);
    const gone = fetch(`${url}/charges`, { method: 'POST', headers, body, signal: leaving.signal });
    await untilAtWork(processor, reference);
    leaving.abort();
    await expect(gone).rejects.toThrow();
    await untilCharged(processor, reference);
  });

  it('meets the share of charges that its rates say', async () => {
    const log: ChargeLog = { earlier: [], append: async () => {}, broken: new Promise(() => {}) };
    const charges = createCharges(log, seededRandom(1).fraction);
    const behaviour = { ...USUAL_BEHAVIOUR, failRate: 0.5, declineRate: 0.2 };
    const kinds = { failed: 0, succeeded: 0, declined: 0 };
    for (let number = 0; number < 1000; number += 1) {
      const result = await charges.charge({ reference: `${number}`, ...USUAL_CHARGE }, behaviour);
      kinds[result.kind === 'new' ? result.outcome.status : 'failed'] += 1;
    }
    expect(Math.abs(kinds.failed - 500)).toBeLessThan(60);
    expect(Math.abs(kinds.declined - 100)).toBeLessThan(40);
  });
});
