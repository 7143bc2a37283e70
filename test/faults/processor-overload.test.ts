import { Agent } from 'node:http';
import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { shownPayment } from '../../testkit/client/processor-payer.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { SENT_ONCE, setProcessorEnvironment } from '../../testkit/deployments/processor-environment.js';

const IN_FLIGHT = 24;
const AT_ONCE = 4 * IN_FLIGHT;
/** As it was found: the processor is nearly as slow as the time-out, and recognises no repeat. */
const SLOW = { latencyMs: 800, deduplicate: false };
const SETTINGS = { ...SENT_ONCE, MAX_PAYMENTS_IN_FLIGHT: `${IN_FLIGHT}`, LOCK_TTL_SECONDS: '5' };

describeDeployments('more payments at once than the processor can take', (deployment) => {
  const environment = setProcessorEnvironment(deployment);

  /**
   * Bug: of 1,000 at once 25 were paid, 975 were 504, and 130 never left the process and stayed PROCESSING for an operator.
   * Fix: what is beyond the limit is turned away before it is claimed (decisions P16).
   */
  it('are turned away before they are claimed, and every key is paid once afterwards', async () => {
    const { url } = await environment.serve(SETTINGS);
    const { payer, processor } = environment;
    const keys = await inParallel(AT_ONCE, 16, () => payer.newKey(url));
    await processor.behave(SLOW);
    const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });
    const paid = await Promise.all(
      keys.map(async (key) => ({ key, answer: await payer.pay(url, key, undefined, agent) })),
    );
    agent.destroy();

    const turnedAway = paid.filter(({ answer }) => answer.text.includes('Too many'));
    expect(turnedAway.length).toBeGreaterThan(0);
    expect(AT_ONCE - turnedAway.length).toBeGreaterThanOrEqual(IN_FLIGHT);
    for (const { key, answer } of turnedAway) {
      expectError(answer, 503, /nothing was begun for this one/);
      expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
      expect((await shownPayment(url, key))?.state).toBe('PENDING');
    }

    await processor.behave({ latencyMs: 0 });
    const last = await inParallel(AT_ONCE, 16, (index) => payer.untilFinal(url, keys[index] as string));
    expect(last.filter(({ status }) => status !== 200)).toEqual([]);
    await environment.check();
  });
});
