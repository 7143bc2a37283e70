import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { USUAL_BEHAVIOUR } from '#idempay/reference-processor/behaviour.js';
import { expectChargedOnce } from '../../testkit/checkers/charges.js';
import { expectError } from '../../testkit/client/error-body.js';
import { expectFirst, expectReplay } from '../../testkit/client/payment-answers.js';
import { resolvePayment } from '../../testkit/client/payment-records.js';
import { Payer } from '../../testkit/client/processor-payer.js';
import {
  type DistributedStores,
  executionOf,
  openDistributedStores,
} from '../../testkit/deployments/distributed-stores.js';
import {
  expectPaid,
  LEASE_MS,
  REACHED_DEADLINE_MS,
  SENT_ONCE,
  untilCharged,
} from '../../testkit/deployments/processor-environment.js';
import { type ProcessorInProcess, serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { Service } from '../../testkit/processes/service.js';
import type { ServiceInProcess } from '../../testkit/processes/service-in-process.js';
import { until } from '../../testkit/time/until.js';

/** As long as it may be under that lease: what a test does meanwhile is over before. */
const CALL_MS = 1_800;

describe('a process that is stopped (distributed)', () => {
  let stores: DistributedStores;
  let wires: DistributedStores['wires'];
  let processor: ProcessorInProcess;
  let payer: Payer;
  /** Reaches its stores through the wires. */
  let stopped: Service;
  let other: ServiceInProcess;

  beforeAll(async () => {
    [stores, processor] = await Promise.all([openDistributedStores(), serveReferenceProcessor()]);
    wires = stores.wires;
    const settings = {
      ...SENT_ONCE,
      PROCESSOR_URL: processor.url,
      LOCK_TTL_SECONDS: `${LEASE_MS / 1000}`,
      PROCESSOR_TIMEOUT_MS: `${CALL_MS}`,
    };
    other = await stores.serve(settings);
    stopped = await stores.start({ ...settings, ...wires.environment });
  });
  beforeEach(async () => {
    payer = new Payer();
    // A charge that should not have been sent is seen, and not forgiven.
    await processor.behave({ ...USUAL_BEHAVIOUR, deduplicate: false });
    // Redis knows the scripts from here on: each step is one command and one reply.
    expectFirst(await payer.pay(stopped.url, await payer.newKey(stopped.url)));
  });
  // A test that failed may have left it stopped.
  afterEach(() => stopped.signal('SIGCONT'));
  afterAll(async () => {
    await processor.close();
    await stores.close();
  });

  const STEPS = {
    // How commands for the lock look on the wire, whatever the deployment's id is.
    lock: (key: string) => wires.redis.hold(`{${key}}:lock`, 'reply'),
    claim: () => wires.postgres.hold(executionOf('claim'), 'reply'),
  };

  /** A payment whose process waits for the reply to this step, and is stopped; the reply is there when it goes on. */
  async function givenStopped(step: keyof typeof STEPS) {
    const key = await payer.newKey(other.url);
    const reply = STEPS[step](key);
    const paying = payer.pay(stopped.url, key);
    await reply.reached;
    stopped.signal('SIGSTOP');
    reply.release();
    return { key, paying };
  }

  async function givenStoppedWithCharge() {
    await processor.behave({ replyLatencyMs: CALL_MS / 2 });
    const key = await payer.newKey(other.url);
    const paying = payer.pay(stopped.url, key);
    await untilCharged(processor, key);
    stopped.signal('SIGSTOP');
    return { key, paying };
  }

  const check = () => expectChargedOnce({ processor, payer, url: other.url, leaseMs: LEASE_MS });

  test.each([
    ['with the lock, before its claim', () => givenStopped('lock')],
    ['with its charge in flight', givenStoppedWithCharge],
  ])('%s charges nothing more, and gives the result of the process that paid meanwhile', async (_when, given) => {
    const { key, paying } = await given();
    const id = expectPaid(await payer.untilFinal(other.url, key));
    stopped.signal('SIGCONT');
    expectReplay(await paying, id);
    await check();
  });

  test('with its claim, before its charge, sends nothing when an operator has ended the payment', async () => {
    const { key, paying } = await givenStopped('claim');
    const resolved = await until('the resolution to be taken', REACHED_DEADLINE_MS, async () => {
      const answer = await resolvePayment(other.url, key, { outcome: 'declined', reason: 'not on the statement' });
      return answer.status === 200 && answer;
    });
    expect(resolved.json()).toMatchObject({ state: 'DECLINED' });
    stopped.signal('SIGCONT');
    expectError(await paying, 402, 'Payment declined: not on the statement');
    expect(await processor.chargesOf(key)).toEqual([]);
    await check();
  });
});
