import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { expectFirst, expectReplay, INVALID_KEY } from '../../testkit/client/payment-answers.js';
import { shownPayment } from '../../testkit/client/processor-payer.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import {
  expectPaid,
  LEASE_MS,
  setProcessorScene,
  TIMEOUT_MS,
  untilCharged,
} from '../../testkit/deployments/processor-environment.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { pause } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

/** Keys die a second after leases, so a pause of one and the other is over soon. */
const KEY_LIFE_MS = LEASE_MS + 1_000;
const SHORT_KEYS = { IDEMPOTENCY_TTL_SECONDS: `${KEY_LIFE_MS / 1000}` };
const BURST = 24;

describeDeployments('a process that stands still for longer than its lease and its keys live', (deployment) => {
  const scene = setProcessorScene(deployment);

  it('before it has begun pays nothing when it wakes up: the key is dead', async () => {
    const service = await scene.serve(SHORT_KEYS);
    const key = await scene.payer.newKey(service.url);
    service.signal('SIGSTOP');
    // The kernel takes the connection and the request.
    const paying = scene.payer.pay(service.url, key);
    await untilPast(KEY_LIFE_MS);
    service.signal('SIGCONT');
    expectError(await paying, 400, INVALID_KEY);
    expect(await scene.processor.chargesOf(key)).toEqual([]);
    await scene.judge();
  });

  it('while its charge is in flight answers the outcome of the one that took over, or finishes it alone, once', async () => {
    const [service, other] = await scene.serveTwo(SHORT_KEYS);
    // The reply comes while the process stands still.
    await scene.processor.behave({ replyLatencyMs: TIMEOUT_MS / 2 });
    const key = await scene.payer.newKey(service.url);
    const paying = scene.payer.pay(service.url, key);
    await untilCharged(scene.processor, key);
    service.signal('SIGSTOP');
    await untilPast(KEY_LIFE_MS);

    if (other !== service) {
      // Of the repeat and recovery of the other process, one was first.
      const id = expectPaid(await scene.payer.untilFinal(other.url, key));
      service.signal('SIGCONT');
      expectReplay(await paying, id);
      expectReplay(await scene.payer.pay(service.url, key), id);
    } else {
      service.signal('SIGCONT');
      const answer = await paying;
      // Woken up late, it may have read the reply or called it too late.
      if (answer.status !== 504) expectFirst(answer);
      expectPaid(await scene.payer.untilFinal(service.url, key));
    }
    expect(await scene.processor.chargesOf(key)).toHaveLength(1);
    await scene.judge();
  });

  it('anywhere in a burst of payments, again and again, charges each at most once', async () => {
    const random = seededRandom(seedFrom('PAUSE_SEED'));
    const [service, other] = await scene.serveTwo();
    await scene.processor.behave({ latencyMs: 20, replyLatencyMs: 20 });
    for (let round = 0; round < 2; round += 1) {
      const keys: string[] = [];
      for (let index = 0; index < BURST; index += 1) keys.push(await scene.payer.newKey(service.url));
      const paying = keys.map((key) => pause(random.below(60)).then(() => scene.payer.pay(service.url, key)));
      await pause(random.below(80));
      service.signal('SIGSTOP');
      await untilPast(LEASE_MS + 200);
      if (other !== service) await Promise.all(keys.map((key) => scene.payer.pay(other.url, key)));
      service.signal('SIGCONT');
      const statuses = (await Promise.all(paying)).map(({ status }) => status);
      // A claim that came too late is a 503: nothing was changed, and the repeat pays.
      expect(statuses.filter((status) => ![200, 409, 503, 504].includes(status))).toEqual([]);
      for (const key of keys) {
        const { status, text } = await scene.payer.untilFinal(other.url, key);
        expect(status, text).toBe(200);
        expect(await shownPayment(service.url, key)).toMatchObject({ state: 'COMPLETED' });
      }
    }
    await scene.judge();
  });
});
