import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { USUAL_BEHAVIOUR } from '#idempay/reference-processor/behaviour.js';
import { judgeCharges } from '../../testkit/checkers/charges.js';
import { expectError } from '../../testkit/client/error-body.js';
import {
  expectFirst,
  expectInProgress,
  expectKeyValue,
  expectReplay,
  INVALID_KEY,
} from '../../testkit/client/payment-answers.js';
import { Payer, shownPayment } from '../../testkit/client/processor-payer.js';
import {
  type DistributedStores,
  executionOf,
  openDistributedStores,
  openWires,
} from '../../testkit/deployments/distributed-stores.js';
import {
  LEASE_MS,
  REACHED_DEADLINE_MS,
  resolvePayment,
  untilAtWork,
  untilCharged,
} from '../../testkit/deployments/processor-environment.js';
import { type ReferenceProcessor, startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { Service } from '../../testkit/processes/service.js';
import { until } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

/** As long as it may be under that lease: what a test does meanwhile is over before. */
const CALL_MS = 1_800;
const KEY_LIFE_MS = LEASE_MS + 1_000;
/** So that a charge that should not have been sent is seen, and not forgiven. */
const EVERY_SEND_CHARGES = { deduplicate: false };

/** Two processes, one of which meets what must not matter at one exact step of a payment. */
describe('a process at work on a payment (distributed)', () => {
  let stores: DistributedStores;
  let wires: Awaited<ReturnType<typeof openWires>>;
  let processor: ReferenceProcessor;
  let payer: Payer;
  /** `stopped` reaches its stores through the wires. */
  let stopped: Service;
  let other: Service;
  let startedWith = '';

  beforeAll(async () => {
    [stores, processor] = await Promise.all([openDistributedStores(), startReferenceProcessor()]);
    wires = await openWires(stores);
  });
  beforeEach(async () => {
    payer = new Payer();
    await processor.behave(USUAL_BEHAVIOUR);
  });
  // A test that failed may have left it stopped.
  afterEach(() => stopped.signal('SIGCONT'));
  afterAll(async () => {
    await stores.close();
    await Promise.all([wires.close(), processor.close()]);
  });

  /** Both processes with these settings; those that run stay if they have them. */
  async function start(settings: Record<string, string> = {}): Promise<void> {
    if (startedWith === JSON.stringify(settings)) return;
    if (startedWith) await Promise.all([stopped.kill(), other.kill()]);
    startedWith = JSON.stringify(settings);
    const usual = { LOCK_TTL_SECONDS: `${LEASE_MS / 1000}`, PROCESSOR_TIMEOUT_MS: `${CALL_MS}` };
    const environment = { PROCESSOR_URL: processor.url, ...usual, ...settings };
    [stopped, other] = await Promise.all([
      stores.start({ ...environment, ...wires.environment }),
      stores.start(environment),
    ]);
    // Redis knows the scripts from here on: each step is one command and one reply.
    expectFirst(await payer.pay(stopped.url, await payer.newKey(stopped.url)));
  }

  /** How commands for the lock look on the wire, whatever the deployment's id is. */
  const lockOf = (key: string) => `{${key}}:lock`;
  const judge = () => judgeCharges({ processor, payments: payer.payments, url: other.url });

  /** The process waits for the reply that holds `text`, and is stopped; the reply is there when it wakes up. */
  async function stopAt(wire: 'redis' | 'postgres', text: string, key: string) {
    const reply = wires[wire].hold(text, 'reply');
    const paying = payer.pay(stopped.url, key);
    await reply.reached;
    stopped.signal('SIGSTOP');
    reply.release();
    return { paying, wakeUp: () => stopped.signal('SIGCONT') };
  }

  it('that is stopped with the lock, before its claim, gives the result of the one that paid meanwhile', async () => {
    await start();
    await processor.behave(EVERY_SEND_CHARGES);
    const key = await payer.newKey(other.url);
    const { paying, wakeUp } = await stopAt('redis', lockOf(key), key);
    const id = expectFirst(await payer.repeat(other.url, key));
    wakeUp();
    expectReplay(await paying, id);
    expect((await shownPayment(other.url, key))?.attempts).toBe(1);
    await judge();
  });

  it('that is stopped with its claim, before its charge, sends nothing when another has taken over, and gives its result', async () => {
    await start();
    await processor.behave(EVERY_SEND_CHARGES);
    const key = await payer.newKey(other.url);
    const { paying, wakeUp } = await stopAt('postgres', executionOf('claim'), key);
    const finished = await payer.untilFinal(other.url, key);
    expect(finished.status).toBe(200);
    const [charge] = await processor.chargesOf(key);
    wakeUp();
    expectReplay(await paying, charge?.transactionId);
    await judge();
  });

  it('whose charge is in flight when Redis forgets everything is still met by duplicates, and gives the one result', async () => {
    await start();
    await processor.behave({ latencyMs: CALL_MS / 2 });
    const key = await payer.newKey(other.url);
    const paying = payer.pay(stopped.url, key);
    await untilAtWork(processor, key);
    await stores.redis.client.flushall();
    for (const { url } of [stopped, other, other]) expectInProgress(await payer.pay(url, key), LEASE_MS / 1000);
    const id = expectFirst(await paying);
    for (const { url } of [stopped, other]) expectReplay(await payer.pay(url, key), id);
    await expectKeyValue(other.url, key, id);
    await judge();
  });

  it('that is stopped with the lock, before its claim, pays nothing with a key that died meanwhile', async () => {
    await start({ IDEMPOTENCY_TTL_SECONDS: `${KEY_LIFE_MS / 1000}` });
    const key = await payer.newKey(other.url);
    const { paying, wakeUp } = await stopAt('redis', lockOf(key), key);
    await untilPast(KEY_LIFE_MS);
    wakeUp();
    expectError(await paying, 503);
    expectError(await payer.pay(other.url, key), 400, INVALID_KEY);
    expect(await processor.chargesOf(key)).toEqual([]);
    await judge();
  });

  it('that is stopped with its claim, before its charge, is fenced off by an operator too', async () => {
    await start({ PROCESSOR_DEDUP_SECONDS: '0' });
    const key = await payer.newKey(other.url);
    const { paying, wakeUp } = await stopAt('postgres', executionOf('claim'), key);
    const resolved = await until('the resolution to be taken', REACHED_DEADLINE_MS, async () => {
      const answer = await resolvePayment(other.url, key, 'declined', 'not on the statement');
      return answer.status === 200 && answer;
    });
    expect(resolved.json()).toMatchObject({ state: 'DECLINED' });
    wakeUp();
    expectError(await paying, 402, 'Payment declined: not on the statement');
    expect(await processor.chargesOf(key)).toEqual([]);
    await judge();
  });

  it('that is stopped with its charge in flight, until its payment was finished and the result has expired, adds nothing', async () => {
    await start({ IDEMPOTENCY_TTL_SECONDS: '2' });
    await processor.behave({ replyLatencyMs: CALL_MS / 2 });
    const key = await payer.newKey(other.url);
    const paying = payer.pay(stopped.url, key);
    await untilCharged(processor, key);
    stopped.signal('SIGSTOP');
    expect((await payer.untilFinal(other.url, key)).status).toBe(200);
    await until('the result to expire', REACHED_DEADLINE_MS, async () => {
      return (await payer.pay(other.url, key)).status === 400;
    });
    stopped.signal('SIGCONT');
    // What it knows itself is that it charged; what it finds is nothing, or the outcome that it has charged, too.
    expect([200, 504]).toContain((await paying).status);
    await judge();
  });
});
