import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { USUAL_BEHAVIOUR } from '#idempay/reference-processor/behaviour.js';
import { expectChargedOnce } from '../../testkit/checkers/charges.js';
import { expectError } from '../../testkit/client/error-body.js';
import {
  expectFirst,
  expectInProgress,
  expectKeyValue,
  expectReplay,
  INVALID_KEY,
} from '../../testkit/client/payment-answers.js';
import { resolvePayment } from '../../testkit/client/payment-records.js';
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
  SENT_ONCE,
  untilAtWork,
  untilCharged,
} from '../../testkit/deployments/processor-environment.js';
import { type ProcessorInProcess, serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { Service } from '../../testkit/processes/service.js';
import type { ServiceInProcess } from '../../testkit/processes/service-in-process.js';
import { until } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

/** As long as it may be under that lease: what a test does meanwhile is over before. */
const CALL_MS = 1_800;
const KEY_LIFE_MS = LEASE_MS + 1_000;
/** So that a charge that should not have been sent is seen, and not forgiven. */
const EVERY_SEND_CHARGES = { deduplicate: false };

/** One of two services is stopped, or loses Redis, at one exact step of a payment. */
describe('a process at work on a payment (distributed)', () => {
  let stores: DistributedStores;
  let wires: Awaited<ReturnType<typeof openWires>>;
  let processor: ProcessorInProcess;
  let payer: Payer;
  /** Reaches its stores through the wires. */
  let stopped: Service;
  let other: ServiceInProcess;
  let startedWith = '';

  beforeAll(async () => {
    [stores, processor] = await Promise.all([openDistributedStores(), serveReferenceProcessor()]);
    wires = await openWires(stores);
  });
  beforeEach(async () => {
    payer = new Payer();
    await processor.behave(USUAL_BEHAVIOUR);
  });
  // A test that failed may have left it stopped.
  afterEach(() => stopped.signal('SIGCONT'));
  afterAll(async () => {
    await processor.close();
    await stores.close();
    await wires.close();
  });

  /** Both services with these settings; those that run stay if they have them. */
  async function start(settings: Record<string, string> = {}): Promise<void> {
    if (startedWith === JSON.stringify(settings)) return;
    if (startedWith) await Promise.all([stopped.kill(), other.stop()]);
    startedWith = JSON.stringify(settings);
    const usual = { LOCK_TTL_SECONDS: `${LEASE_MS / 1000}`, PROCESSOR_TIMEOUT_MS: `${CALL_MS}` };
    const environment = { PROCESSOR_URL: processor.url, ...usual, ...settings };
    other = await stores.serve(environment);
    stopped = await stores.start({ ...environment, ...wires.environment });
    // Redis knows the scripts from here on: each step is one command and one reply.
    expectFirst(await payer.pay(stopped.url, await payer.newKey(stopped.url)));
  }

  const check = () => expectChargedOnce({ processor, payer, url: other.url, leaseMs: LEASE_MS });

  /** The process waits for the reply to this step, and is stopped; the reply is there when it goes on. */
  async function stopAt(step: 'lock' | 'claim', key: string) {
    // How commands for the lock look on the wire, whatever the deployment's id is.
    const reply =
      step === 'lock' ? wires.redis.hold(`{${key}}:lock`, 'reply') : wires.postgres.hold(executionOf('claim'), 'reply');
    const paying = payer.pay(stopped.url, key);
    await reply.reached;
    stopped.signal('SIGSTOP');
    reply.release();
    return { paying, goOn: () => stopped.signal('SIGCONT') };
  }

  it('that is stopped with the lock, before its claim, gives the result of the one that paid meanwhile', async () => {
    await start();
    await processor.behave(EVERY_SEND_CHARGES);
    const key = await payer.newKey(other.url);
    const { paying, goOn } = await stopAt('lock', key);
    const id = expectFirst(await payer.repeat(other.url, key));
    goOn();
    expectReplay(await paying, id);
    expect((await shownPayment(other.url, key))?.attempts).toBe(1);
    await check();
  });

  it('that is stopped with its claim, before its charge, sends nothing when another has taken over, and gives its result', async () => {
    await start();
    await processor.behave(EVERY_SEND_CHARGES);
    const key = await payer.newKey(other.url);
    const { paying, goOn } = await stopAt('claim', key);
    expect((await payer.untilFinal(other.url, key)).status).toBe(200);
    const [charge] = await processor.chargesOf(key);
    goOn();
    expectReplay(await paying, charge?.transactionId);
    await check();
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
    await check();
  });

  it('that is stopped with the lock, before its claim, pays nothing with a key that expired meanwhile', async () => {
    await start({ IDEMPOTENCY_TTL_SECONDS: `${KEY_LIFE_MS / 1000}` });
    const key = await payer.newKey(other.url);
    const { paying, goOn } = await stopAt('lock', key);
    await untilPast(KEY_LIFE_MS);
    goOn();
    expectError(await paying, 503);
    expectError(await payer.pay(other.url, key), 400, INVALID_KEY);
    expect(await processor.chargesOf(key)).toEqual([]);
    await check();
  });

  it('that is stopped with its claim, before its charge, is fenced off by an operator too', async () => {
    await start(SENT_ONCE);
    const key = await payer.newKey(other.url);
    const { paying, goOn } = await stopAt('claim', key);
    const resolution = { outcome: 'declined', reason: 'not on the statement' };
    const resolved = await until('the resolution to be taken', REACHED_DEADLINE_MS, async () => {
      const answer = await resolvePayment(other.url, key, resolution);
      return answer.status === 200 && answer;
    });
    expect(resolved.json()).toMatchObject({ state: 'DECLINED' });
    goOn();
    expectError(await paying, 402, 'Payment declined: not on the statement');
    expect(await processor.chargesOf(key)).toEqual([]);
    await check();
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
    await check();
  });
});
