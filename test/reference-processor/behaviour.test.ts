import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { USUAL_BEHAVIOUR } from '#idempay/reference-processor/behaviour.js';
import { openChargeLog } from '#idempay/reference-processor/charge-log.js';
import { createCharges } from '#idempay/reference-processor/charges.js';
import { ask } from '../../testkit/client/http-client.js';
import {
  type Behaviour,
  changeBehaviour,
  lookUpCharge,
  type ReferenceProcessor,
  sendCharge,
  startReferenceProcessor,
  USUAL_CHARGE,
} from '../../testkit/processes/reference-processor.js';
import { seededRandom } from '../../testkit/random.js';
import { until } from '../../testkit/time/until.js';

const FOREVER_MS = 60_000;
const DEADLINE_MS = 10_000;
/** Long enough to be told from no delay at all. */
const DELAY_MS = 150;

describe('the behaviour of the reference processor', () => {
  let processor: ReferenceProcessor;
  let url: string;
  let reference: string;
  const shown = async () => (await ask(`${url}/behaviour`)).json<Behaviour>();

  beforeAll(async () => {
    processor = await startReferenceProcessor();
    url = processor.url;
  });
  afterAll(() => processor?.close());
  beforeEach(async () => {
    await processor.behave(USUAL_BEHAVIOUR);
    reference = randomUUID();
  });

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

    expect(answer.status).toBe(400);
    expect(answer.json<{ error: string }>().error).toContain(`'${name}'`);
    expect(await shown()).toEqual(USUAL_BEHAVIOUR);
  });

  it('is not changed by what is no object', async () => {
    for (const patch of [null, [], 5, 'declineRate']) expect((await changeBehaviour(url, patch)).status).toBe(400);
    expect(await shown()).toEqual(USUAL_BEHAVIOUR);
  });

  it('delays a charge before it is logged', async () => {
    await processor.behave({ latencyMs: DELAY_MS });
    const sentAt = Date.now();
    expect((await sendCharge(url, reference)).status).toBe(201);

    const [line] = await processor.chargesOf(reference);
    // A timer may fire a millisecond early.
    expect(Date.parse(line?.at ?? '') - sentAt).toBeGreaterThanOrEqual(DELAY_MS - 2);
  });

  it('delays a reply after the charge is logged: meanwhile a repeat and a look-up get the outcome', async () => {
    await processor.behave({ replyLatencyMs: FOREVER_MS });
    void sendCharge(url, reference).catch(() => {});
    await until(
      'the charge to be logged',
      DEADLINE_MS,
      async () => (await processor.chargesOf(reference)).length === 1,
    );
    await until('its outcome', DEADLINE_MS, async () => (await lookUpCharge(url, reference)).status === 200);

    expect((await sendCharge(url, reference)).status).toBe(201);
    expect(await processor.chargesOf(reference)).toHaveLength(1);
  });

  it('that fails answers 500, charges nothing, and takes the charge later', async () => {
    await processor.behave({ failRate: 1 });
    expect((await sendCharge(url, reference)).status).toBe(500);
    expect((await lookUpCharge(url, reference)).status).toBe(404);
    expect(await processor.chargesOf(reference)).toEqual([]);

    await processor.behave({ failRate: 0 });
    expect((await sendCharge(url, reference)).status).toBe(201);
    expect(await processor.chargesOf(reference)).toHaveLength(1);
  });

  it('that loses replies charges and logs, and cuts the connection', async () => {
    await processor.behave({ lostReplyRate: 1 });
    await expect(sendCharge(url, reference)).rejects.toThrow(/socket hang up|ECONNRESET/);

    expect(await processor.chargesOf(reference)).toHaveLength(1);
    expect((await lookUpCharge(url, reference)).json()).toEqual({ status: 'succeeded' });
    expect((await sendCharge(url, reference)).status).toBe(201);
    expect(await processor.chargesOf(reference)).toHaveLength(1);
  });

  it('without deduplication charges again for every request, also for those at the same moment', async () => {
    await processor.behave({ deduplicate: false });
    const answers = await Promise.all(Array.from({ length: 5 }, () => sendCharge(url, reference)));
    const other = await sendCharge(url, reference, { ...USUAL_CHARGE, amount: '7' });

    expect([...answers, other].map(({ status }) => status)).toEqual([201, 201, 201, 201, 201, 201]);
    expect(await processor.chargesOf(reference)).toHaveLength(6);
  });

  it('without deduplication never hides a charge behind a later decline', async () => {
    await processor.behave({ deduplicate: false });
    await sendCharge(url, reference);
    await processor.behave({ declineRate: 1 });
    expect((await sendCharge(url, reference)).status).toBe(402);

    expect((await lookUpCharge(url, reference)).json()).toEqual({ status: 'succeeded' });
  });

  it.each([401, 403, 404, 503])(
    'that refuses answers %i to every charge and look-up, and nothing is charged',
    async (status) => {
      const known = randomUUID();
      await sendCharge(url, known);
      await processor.behave({ refuseWith: status });

      for (const answer of [
        await sendCharge(url, reference),
        await sendCharge(url, known),
        await sendCharge(url, reference, 'no JSON'),
        await lookUpCharge(url, known),
      ]) {
        expect([answer.status, answer.json()]).toEqual([status, { error: `refused with ${status}` }]);
      }
      expect(await processor.chargesOf(reference)).toEqual([]);
    },
  );

  it('is that of its arrival for a charge, whatever changes meanwhile', async () => {
    await processor.behave({ latencyMs: DELAY_MS });
    const answer = sendCharge(url, reference);
    await until(
      'the charge to be at work',
      DEADLINE_MS,
      async () => (await lookUpCharge(url, reference)).status === 409,
    );
    await processor.behave({ declineRate: 1, lostReplyRate: 1 });

    expect((await answer).status).toBe(201);
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
    await until(
      'the charge to be at work',
      DEADLINE_MS,
      async () => (await lookUpCharge(url, reference)).status === 409,
    );
    leaving.abort();

    await expect(gone).rejects.toThrow();
    await until(
      'the charge to be logged',
      DEADLINE_MS,
      async () => (await processor.chargesOf(reference)).length === 1,
    );
  });

  it('befalls the share of charges that its rates say', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'idempay-rates-'));
    try {
      const log = await openChargeLog(join(folder, 'charges.ndjson'));
      const charges = createCharges(log, seededRandom(1).fraction);
      const behaviour = { ...USUAL_BEHAVIOUR, failRate: 0.5, declineRate: 0.2 };
      const results = await Promise.all(
        Array.from({ length: 1000 }, (_, index) =>
          charges.charge({ reference: `${index}`, ...USUAL_CHARGE }, behaviour),
        ),
      );

      const failed = results.filter(({ kind }) => kind === 'failed').length;
      const declined = results.filter((result) => result.kind === 'new' && result.outcome.status === 'declined').length;
      expect(Math.abs(failed - 500)).toBeLessThan(60);
      expect(Math.abs(declined - 100)).toBeLessThan(40);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
