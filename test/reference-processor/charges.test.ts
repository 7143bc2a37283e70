import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { USUAL_BEHAVIOUR } from '#idempay/reference-processor/behaviour.js';
import { type Answer, ask, sendJson } from '../../testkit/client/http-client.js';
import { REACHED_DEADLINE_MS, untilAtWork, untilCharged } from '../../testkit/deployments/processor-environment.js';
import {
  type Behaviour,
  changeBehaviour,
  lookUpCharge,
  type ProcessorInProcess,
  sendCharge,
  serveReferenceProcessor,
  USUAL_CHARGE,
} from '../../testkit/processes/reference-processor.js';
import { until } from '../../testkit/time/until.js';

/** Longer than any test here runs. */
const ENDLESS_MS = 60_000;
/** Long enough to be told from no delay at all. */
const DELAY_MS = 1_000;
const CHARGE_ID = expect.stringMatching(/^[0-9a-f-]{36}$/);
const SUCCEEDED = [201, { status: 'succeeded', id: CHARGE_ID }];
const DECLINED = { status: 'declined', reason: 'insufficient funds' };
const FOUND = [200, { status: 'succeeded', id: CHARGE_ID }];
const PROBLEM = { error: expect.stringMatching(/\w/) };

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
/** Without what the reply is about, which a test of its own looks at. */
function outcomeOf(answer: Answer): Shown {
  const { reference: _, transactionId, amount, currency, ...outcome } = answer.json() as Record<string, unknown>;
  return [answer.status, outcome];
}
const charge = async (body?: unknown, of = reference) => outcomeOf(await sendCharge(url, of, body));
const lookUp = async (of = reference) => outcomeOf(await lookUpCharge(url, of));
/**
 * Repeats the steps with a fresh reference, whose charge takes DELAY_MS, until the charge is still at work after them: a machine that pauses
 * may be too late.
 */
const whileAtWork = <Result extends object>(steps: () => Promise<Result>) =>
  until('a charge to be at work after the steps', REACHED_DEADLINE_MS, async () => {
    reference = randomUUID();
    await processor.behave({ ...USUAL_BEHAVIOUR, latencyMs: DELAY_MS });
    const result = await steps();
    return (await lookUp())[0] === 409 && result;
  });
const untilArrived = () => until('the charge to arrive', REACHED_DEADLINE_MS, async () => (await lookUp())[0] !== 404);
const expectCharges = async (count: number) => expect(await processor.chargesOf(reference)).toHaveLength(count);

describe('the reference processor', () => {
  it('says on every answer that it moves no money', async () => {
    await processor.behave({ refuseWith: null });
    const answers = [
      await sendCharge(url, reference, undefined),
      await sendCharge(url, reference, {}),
      await lookUpCharge(url, reference),
      await lookUpCharge(url, randomUUID()),
      await ask(`${url}/nothing`),
      await ask(`${url}/behaviour`),
    ];
    await processor.behave({ refuseWith: 503 });
    answers.push(await lookUpCharge(url, reference));
    expect(answers.map(({ status }) => status)).toEqual([201, 400, 200, 404, 404, 200, 503]);
    for (const { headers } of answers) expect(headers['moves-money']).toBe('no');
  });

  it('logs every member of a charge as it was sent, with the reason of a decline', async () => {
    const before = Date.now();
    const [sent, declined] = [{ transactionId: 'TXN1', amount: '0100.500', currency: 'JPY' }, randomUUID()];
    await charge(sent);
    await processor.behave({ declineRate: 1 });
    await charge(USUAL_CHARGE, declined);
    expect(await processor.chargesOf(declined)).toMatchObject([{ ...USUAL_CHARGE, ...DECLINED }]);
    const at = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    const lines = await processor.chargesOf(reference);
    expect(lines).toEqual([{ reference, ...sent, status: 'succeeded', id: CHARGE_ID, at }]);
    expect(Date.parse(lines[0]?.at ?? '')).toBeGreaterThanOrEqual(before);
  });

  it.each<[string, Partial<Behaviour>, unknown, unknown, number, unknown]>([
    ['succeeds is 201, also repeated', { declineRate: 0 }, SUCCEEDED, FOUND, 1, SUCCEEDED],
    ['is declined is 402, also repeated', { declineRate: 1 }, [402, DECLINED], [200, DECLINED], 1, [402, DECLINED]],
    ['fails is 500, and taken later', { failRate: 1 }, [500, PROBLEM], [404, PROBLEM], 0, [402, DECLINED]],
    ['loses its reply is cut off, and is made', { lostReplyRate: 1 }, 'cut off', FOUND, 1, SUCCEEDED],
  ])('a charge that %s', async (_title, behaviour, answer, found, charges, later) => {
    await processor.behave(behaviour);
    const first = await charge().catch(({ message }) => /socket hang up|ECONNRESET/.test(message) && 'cut off');
    expect(first).toEqual(answer);
    expect(await lookUp()).toEqual(found);
    await expectCharges(charges);
    await processor.behave({ ...USUAL_BEHAVIOUR, declineRate: behaviour.declineRate === 1 ? 0 : 1 });
    expect(await charge()).toEqual(later);
    await expectCharges(1);
  });

  it('says what each reply is about: the reference, and of a charge its members as they were sent', async () => {
    const about = { reference, ...USUAL_CHARGE };
    for (const declineRate of [0, 1]) {
      await processor.behave({ declineRate });
      expect(shownOf(await sendCharge(url, reference))).toMatchObject([declineRate === 0 ? 201 : 402, about]);
      expect(shownOf(await lookUpCharge(url, reference))).toMatchObject([200, about]);
      const other = { ...USUAL_CHARGE, amount: '7.00' };
      expect(shownOf(await sendCharge(url, reference, other))).toEqual([422, { ...PROBLEM, reference }]);
      reference = about.reference = randomUUID();
      expect(shownOf(await lookUpCharge(url, reference))).toEqual([404, { ...PROBLEM, reference }]);
    }
    await processor.behave({ failRate: 1 });
    expect(shownOf(await sendCharge(url, reference))).toEqual([500, { ...PROBLEM, reference }]);
    await processor.behave({ failRate: 0, declineRate: 0, latencyMs: ENDLESS_MS });
    void sendCharge(url, reference).catch(() => {});
    await untilAtWork(processor, reference);
    expect(shownOf(await lookUpCharge(url, reference))).toEqual([409, { ...PROBLEM, reference }]);
  });

  it('names each charge, and has the same name in a repeat and a look-up', async () => {
    const nameOf = ([, body]: Shown) => (body as { id: string }).id;
    const names = [await charge(), await charge(), await lookUp()].map(nameOf);
    expect(new Set(names).size).toBe(1);
    await processor.behave({ deduplicate: false });
    expect(names).not.toContain(nameOf(await charge()));
  });

  it('answers 422 to a known reference with another member, and logs nothing', async () => {
    await charge();
    for (const change of [{ transactionId: 'TXN2' }, { amount: '100.5' }, { currency: 'EUR' }]) {
      expect(await charge({ ...USUAL_CHARGE, ...change })).toEqual([422, PROBLEM]);
    }
    await expectCharges(1);
  });

  it('charges once when the same charge arrives many times at the same moment', async () => {
    const answers = await Promise.all(Array.from({ length: 50 }, () => charge()));
    const statuses = answers.map(([status]) => status);
    expect(statuses).toContain(201);
    for (const status of statuses) expect([201, 409]).toContain(status);
    await expectCharges(1);
  });

  it('takes any visible reference of up to 255 characters, in the header as in the path', async () => {
    for (const odd of ['a/b?c=d#e%20f', '"quoted"', '/'.repeat(255)]) {
      expect([await charge(USUAL_CHARGE, odd), await lookUp(odd)]).toEqual([SUCCEEDED, FOUND]);
      expect(await processor.chargesOf(odd)).toHaveLength(1);
    }
  });

  it('answers 400 to a body that is no charge, and logs nothing', async () => {
    const bad = { transactionId: [undefined, ''], amount: [undefined, 100.5, '1e2'], currency: [undefined, 'dollars'] };
    const charges = Object.entries(bad).flatMap(([name, values]) =>
      values.map((value) => ({ ...USUAL_CHARGE, [name]: value })),
    );
    for (const body of [...charges, [], '{"transactionId":', '']) {
      expect(await charge(body), JSON.stringify(body)).toEqual([400, PROBLEM]);
    }
    await expectCharges(0);
    expect(await lookUp()).toEqual([404, PROBLEM]);
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
    ['pendingRate', [1.5]],
    ['pendingMs', [0, 31_622_400_001]],
    ['refundPendingRate', ['1']],
    ['endWith', [404, '409']],
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
    const { sentAt, answer } = await whileAtWork(async () => {
      const sentAt = Date.now();
      const answer = charge();
      await untilArrived();
      await processor.behave({ declineRate: 1, lostReplyRate: 1 });
      return { sentAt, answer };
    });
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

  it('answers 409 to a repeat and a look-up while a charge is at work, which goes on when its client has gone', async () => {
    const { gone, repeat, charges } = await whileAtWork(async () => {
      const leaving = new AbortController();
      const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': reference };
      const body = JSON.stringify(USUAL_CHARGE);
      const sent = fetch(`${url}/charges`, { method: 'POST', headers, body, signal: leaving.signal });
      const gone = sent.then(
        () => false,
        () => true,
      );
      await untilArrived();
      const repeat = await charge();
      const charges = await processor.chargesOf(reference);
      leaving.abort();
      return { gone: await gone, repeat, charges };
    });
    expect({ gone, repeat, charges }).toEqual({ gone: true, repeat: [409, PROBLEM], charges: [] });
    await untilCharged(processor, reference);
  });

  it('meets the share of charges that its rates say', async () => {
    await processor.behave({ failRate: 0.5, declineRate: 0.2 });
    const answers = await Promise.all(Array.from({ length: 400 }, () => charge(USUAL_CHARGE, randomUUID())));
    const count = (status: number) => answers.filter(([each]) => each === status).length;
    expect(Math.abs(count(500) - 200)).toBeLessThan(80);
    expect(Math.abs(count(402) - 40)).toBeLessThan(35);
  });
});
