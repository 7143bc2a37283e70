import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, paymentStatus } from '../../testkit/client/http-client.js';
import { expectFirst, expectReplay, INVALID_KEY, NO_PAYMENT } from '../../testkit/client/payment-answers.js';
import { shownPayment, untilFinished } from '../../testkit/client/processor-payer.js';
import { givenTransaction } from '../../testkit/client/transactions.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import {
  ENDLESS_MS,
  expectNotSent,
  expectPaid,
  expectUnknown,
  LEASE_MS,
  REACHED_DEADLINE_MS,
  SENT_ONCE,
  setProcessorProcesses,
  TIMEOUT_MS,
  untilAtWork,
  untilCharged,
} from '../../testkit/deployments/processor-environment.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { pause, until } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

/** Longer than any start that waits for nobody may take: `Stores.start` gives up before it. */
const ENDLESS = { PROCESSOR_TIMEOUT_MS: '60000', LOCK_TTL_SECONDS: '120' };
/** Keys expire a second after leases, so a pause of one and the other is over soon. */
const KEY_LIFE_MS = LEASE_MS + 1_000;
const SHORT_KEYS = { IDEMPOTENCY_TTL_SECONDS: `${KEY_LIFE_MS / 1000}` };
const PAUSED_BURST = 24;
const ROUNDS = 3;
const BURST = 16;

describeDeployments('a service that is killed while a charge is in flight', (deployment) => {
  const environment = setProcessorProcesses(deployment);

  it.each([
    ['before', { latencyMs: 1_500 }, untilAtWork],
    ['after', { replyLatencyMs: ENDLESS_MS }, untilCharged],
  ] as const)(
    '%s it was logged finishes it after its restart, once, with the id that was sent',
    async (_when, behaviour, reached) => {
      const { payer, processor } = environment;
      const service = await environment.serve();
      await processor.behave(behaviour);
      const key = await payer.newKey(service.url);
      const cut = expect(payer.pay(service.url, key)).rejects.toThrow();
      await reached(processor, key);
      await service.kill();
      await cut;

      const { url } = await environment.serve();
      const { state, transactionId } = await untilFinished(url, key);
      expect(state).toBe('COMPLETED');
      expect(await processor.chargesOf(key)).toMatchObject([{ transactionId }]);
      expectReplay(await payer.pay(url, key), transactionId as string);
      await environment.check();
    },
  );

  it('waits for nobody when it starts again: its port opens while the processor does not answer', async () => {
    const { payer, processor } = environment;
    const before = await environment.serve();
    await processor.kill();
    const keys = await inParallel(3, 1, async () => {
      const key = await payer.newKey(before.url);
      expectNotSent(await payer.pay(before.url, key));
      return key;
    });
    await before.kill();
    await processor.restart();
    processor.pause();

    // `serve` would give up long before a call to the processor does.
    const { url } = await environment.serve(ENDLESS);
    const [key] = keys as [string];
    await until('recovery to be at work', REACHED_DEADLINE_MS, async () => {
      return ((await shownPayment(url, key))?.attempts ?? 0) >= 2;
    });
    expectError(await paymentStatus(url, key), 404, NO_PAYMENT);
    expectError(await payer.pay(url, key), 409);
    expect((await ask(`${url}/api/health/redis`)).status).toBe(200);
    await generateKey(url);
    await givenTransaction(url);

    processor.resume();
    for (const each of keys) {
      const { transactionId } = await untilFinished(url, each);
      expectReplay(await payer.pay(url, each), transactionId as string);
    }
    await environment.check();
  });
});

describeDeployments('a service that gets SIGTERM while a charge is in flight', (deployment) => {
  const environment = setProcessorProcesses(deployment);

  it('answers the payment and ends with exit code 0', async () => {
    const { payer, processor } = environment;
    const service = await environment.serve();
    await processor.behave({ latencyMs: TIMEOUT_MS / 2 });
    const key = await payer.newKey(service.url);
    const paying = payer.pay(service.url, key);
    await untilAtWork(processor, key);
    expect(await service.stop()).toEqual({ code: 0, signal: null });
    const id = expectFirst(await paying);

    const { url } = await environment.serve();
    expectReplay(await payer.pay(url, key), id);
    await environment.check();
  });
});

describeDeployments('a process that is paused for longer than its lease and its keys live', (deployment) => {
  const environment = setProcessorProcesses(deployment);

  it('before it has begun a payment pays nothing when it goes on: the key has expired', async () => {
    const { payer, processor } = environment;
    const service = await environment.serve(SHORT_KEYS);
    const key = await payer.newKey(service.url);
    service.signal('SIGSTOP');
    // The kernel takes the connection and the request.
    const paying = payer.pay(service.url, key);
    await untilPast(KEY_LIFE_MS);
    service.signal('SIGCONT');
    expectError(await paying, 400, INVALID_KEY);
    expect(await processor.chargesOf(key)).toEqual([]);
    await environment.check();
  });

  it('while its charge is in flight answers the outcome of the one that took over, or finishes it alone, once', async () => {
    const { payer, processor } = environment;
    const [service, other] = await environment.serveTwo(SHORT_KEYS);
    // The reply comes while the process is stopped.
    await processor.behave({ replyLatencyMs: TIMEOUT_MS / 2 });
    const key = await payer.newKey(service.url);
    const paying = payer.pay(service.url, key);
    await untilCharged(processor, key);
    service.signal('SIGSTOP');
    await untilPast(KEY_LIFE_MS);

    if (other !== service) {
      // Of the repeat and recovery of the other process, one was first.
      const id = expectPaid(await payer.untilFinal(other.url, key));
      service.signal('SIGCONT');
      expectReplay(await paying, id);
      expectReplay(await payer.pay(service.url, key), id);
    } else {
      service.signal('SIGCONT');
      const answer = await paying;
      // It may have read the reply, or found that it came too late.
      if (answer.status !== 504) expectFirst(answer);
      expectPaid(await payer.untilFinal(service.url, key));
    }
    expect(await processor.chargesOf(key)).toHaveLength(1);
    await environment.check();
  });

  it('anywhere in a burst of payments, again and again, charges each at most once', async () => {
    const { payer, processor } = environment;
    const random = seededRandom(seedFrom('PAUSE_SEED'));
    const [service, other] = await environment.serveTwo();
    await processor.behave({ latencyMs: 20, replyLatencyMs: 20 });
    for (let round = 0; round < 2; round += 1) {
      const keys = await inParallel(PAUSED_BURST, 1, () => payer.newKey(service.url));
      const paying = keys.map((key) => pause(random.below(60)).then(() => payer.pay(service.url, key)));
      await pause(random.below(80));
      service.signal('SIGSTOP');
      await untilPast(LEASE_MS + 200);
      if (other !== service) await Promise.all(keys.map((key) => payer.pay(other.url, key)));
      service.signal('SIGCONT');
      const statuses = (await Promise.all(paying)).map(({ status }) => status);
      // A claim that came too late is a 503: nothing was changed, and the repeat pays.
      expect(statuses.filter((status) => ![200, 409, 503, 504].includes(status))).toEqual([]);
      for (const key of keys) {
        const { status, text } = await payer.untilFinal(other.url, key);
        expect(status, text).toBe(200);
        expect(await shownPayment(service.url, key)).toMatchObject({ state: 'COMPLETED' });
      }
    }
    await environment.check();
  });
});

/** Every charge that arrives is another one: only what is never sent twice is charged once. */
describeDeployments('a processor without deduplication, and PROCESSOR_DEDUP_SECONDS=0', (deployment) => {
  const environment = setProcessorProcesses(deployment);

  it('charges once where a reply was lost or late, however often the payment is repeated', async () => {
    const { payer, processor } = environment;
    const [{ url }, other] = await environment.serveTwo(SENT_ONCE);
    await processor.behave({ deduplicate: false, lostReplyRate: 1 });
    const lost = await payer.newKey(url);
    expectUnknown(await payer.pay(url, lost));
    // On its way for longer than the time-out: a look-up finds no record of it until it is charged.
    await processor.behave({ lostReplyRate: 0, latencyMs: 2 * TIMEOUT_MS });
    const late = await payer.newKey(url);
    expectUnknown(await payer.pay(url, late));
    for (const each of [url, other.url]) expectUnknown(await payer.repeat(each, late));
    for (const key of [lost, late]) expectPaid(await payer.untilFinal(other.url, key));
    await environment.check();
  });

  it('charges at most once through kills of both sides, lost replies, failures and repeats', async () => {
    const { payer, processor } = environment;
    const random = seededRandom(seedFrom('WITHOUT_DEDUPLICATION_SEED'));
    const faulty = { deduplicate: false, latencyMs: 30, replyLatencyMs: 30, lostReplyRate: 0.3, failRate: 0.2 };
    const keys: string[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const [service, other] = await environment.serveTwo(SENT_ONCE);
      await processor.restart(faulty);
      const fresh = await inParallel(BURST, BURST, () => payer.newKey(service.url));
      keys.push(...fresh);
      const paying = inParallel(3 * BURST, 3 * BURST, async (index) => {
        await pause(random.below(150));
        const url = index % 2 === 0 ? service.url : other.url;
        await payer.pay(url, fresh[index % BURST] as string).catch(() => {});
      });
      await pause(50 + random.below(150));
      await (round % 2 === 0 ? processor.kill() : service.kill());
      await paying;
    }

    await processor.restart({ ...faulty, lostReplyRate: 0, failRate: 0 });
    const { url } = await environment.serve(SENT_ONCE);
    const outcomes = await inParallel(keys.length, 8, async (index) => {
      const key = keys[index] as string;
      return until('the payment to be charged, or surely never to be', REACHED_DEADLINE_MS, async () => {
        const { status } = await payer.pay(url, key);
        if (status === 200) return 'charged' as const;
        // Whoever held a lease is dead or done: what has no record now was never sent, or failed.
        return status === 504 && (await processor.chargesOf(key)).length === 0 && key;
      });
    });
    const open = outcomes.filter((outcome) => outcome !== 'charged');
    for (const key of open) expect((await shownPayment(url, key))?.state).toBe('PROCESSING');
    // Else the faults never hit anything, or hit everything, and the test has shown nothing.
    expect(open.length).toBeGreaterThan(0);
    expect(open.length).toBeLessThan(keys.length);
    await environment.check(open);
  });
});
