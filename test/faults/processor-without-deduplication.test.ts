import { expect, it } from 'vitest';
import { shownPayment } from '../../testkit/client/processor-payer.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import {
  expectPaid,
  expectUnknown,
  REACHED_DEADLINE_MS,
  setProcessorScene,
  TIMEOUT_MS,
} from '../../testkit/deployments/processor-environment.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { pause, until } from '../../testkit/time/until.js';

const SENT_ONCE = { PROCESSOR_DEDUP_SECONDS: '0' };
const ROUNDS = 3;
const BURST = 16;

/** Every charge that arrives is another one: only what is never sent twice is charged once. */
describeDeployments('a processor without deduplication, and PROCESSOR_DEDUP_SECONDS=0', (deployment) => {
  const scene = setProcessorScene(deployment);

  it('charges once where a reply was lost or late, however often the payment is repeated', async () => {
    const [{ url }, other] = await scene.serveTwo(SENT_ONCE);
    await scene.processor.behave({ deduplicate: false, lostReplyRate: 1 });
    const lost = await scene.payer.newKey(url);
    expectUnknown(await scene.payer.pay(url, lost));
    // On its way for longer than the time-out: a look-up finds no record of it until it is charged.
    await scene.processor.behave({ lostReplyRate: 0, latencyMs: 2 * TIMEOUT_MS });
    const late = await scene.payer.newKey(url);
    expectUnknown(await scene.payer.pay(url, late));
    for (const each of [url, other.url]) expectUnknown(await scene.payer.repeat(each, late));
    for (const key of [lost, late]) expectPaid(await scene.payer.untilFinal(other.url, key));
    await scene.judge();
  });

  it('charges at most once through kills of both sides, lost replies, failures and repeats', async () => {
    const random = seededRandom(seedFrom('WITHOUT_DEDUPLICATION_SEED'));
    const faulty = { deduplicate: false, latencyMs: 30, replyLatencyMs: 30, lostReplyRate: 0.3, failRate: 0.2 };
    const keys: string[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const [service, other] = await scene.serveTwo(SENT_ONCE);
      await scene.processor.restart(faulty);
      const fresh = await inParallel(BURST, BURST, () => scene.payer.newKey(service.url));
      keys.push(...fresh);
      const paying = inParallel(3 * BURST, 3 * BURST, async (index) => {
        await pause(random.below(150));
        const url = index % 2 === 0 ? service.url : other.url;
        await scene.payer.pay(url, fresh[index % BURST] as string).catch(() => {});
      });
      await pause(50 + random.below(150));
      await (round % 2 === 0 ? scene.processor.kill() : service.kill());
      await paying;
    }

    await scene.processor.restart({ ...faulty, lostReplyRate: 0, failRate: 0 });
    const { url } = await scene.serve(SENT_ONCE);
    const unresolved = await inParallel(keys.length, 8, async (index) => {
      const key = keys[index] as string;
      return until('the payment to be charged, or surely never to be', REACHED_DEADLINE_MS, async () => {
        const { status } = await scene.payer.pay(url, key);
        if (status === 200) return 'charged' as const;
        // Whoever held a lease is dead or done: what has no record now was never sent, or failed.
        return status === 504 && (await scene.processor.chargesOf(key)).length === 0 && key;
      });
    });
    const open = unresolved.filter((key) => key !== 'charged');
    for (const key of open) expect((await shownPayment(url, key))?.state).toBe('PROCESSING');
    // Else the faults never hit anything, or hit everything, and the test has shown nothing.
    expect(open.length).toBeGreaterThan(0);
    expect(open.length).toBeLessThan(keys.length);
    await scene.judge(open);
  });
});
