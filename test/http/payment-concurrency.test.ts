import { Agent } from 'node:http';
import { expect, it } from 'vitest';
import { type Answer, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import {
  expectCompleted,
  expectFirst,
  expectInProgress,
  expectKeyValue,
  expectReplay,
} from '../../testkit/client/payment-answers.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

const REQUESTS_AT_ONCE = 1_000;
const KEYS = 10_000;
const CLIENTS = 64;
/** Thirty thousand requests and more, on a machine that may be busy with other suites. */
const LONG_RUN_MS = 300_000;

/** So many repeats of one payment, each on a connection of its own, so that none waits for another on our side. */
async function payAtOnce(url: string, key: string, count: number): Promise<Answer[]> {
  const agent = new Agent({ maxSockets: count });
  try {
    return await Promise.all(Array.from({ length: count }, () => pay(url, key, undefined, { agent })));
  } finally {
    agent.destroy();
  }
}

/** Exactly one answer has the first text; every other is the 409 or the stored result (decision P13). Returns the id. */
function expectOnePayment(answers: readonly Answer[]): string {
  const first = answers.filter((answer) => answer.text.includes('Payment processed successfully'));
  expect(first.map((answer) => answer.text)).toHaveLength(1);
  const transactionId = expectFirst(first[0] as Answer);
  for (const answer of answers) {
    if (answer === first[0]) continue;
    if (answer.status === 409) expectInProgress(answer);
    else expectReplay(answer, transactionId);
  }
  return transactionId;
}

describeDeployments('concurrent payments', (deployment) => {
  const service = shareService(deployment);

  it('makes one payment of a thousand requests at once on one key', async () => {
    const key = await generateKey(service.url);
    const transactionId = expectOnePayment(await payAtOnce(service.url, key, REQUESTS_AT_ONCE));
    expectReplay(await pay(service.url, key), transactionId);
    expectCompleted(await paymentStatus(service.url, key), transactionId);
    await expectKeyValue(service.url, key, transactionId);
  });

  it('makes one payment of each key, again and again, when requests race in small groups', async () => {
    for (let round = 0; round < 100; round++) {
      const key = await generateKey(service.url);
      const transactionId = expectOnePayment(await Promise.all([1, 2, 3, 4].map(() => pay(service.url, key))));
      expectReplay(await pay(service.url, key), transactionId);
    }
  });

  it(
    'makes ten thousand payments of ten thousand keys whose every request is sent twice by 64 clients',
    async () => {
      const transactionIds = await inParallel(KEYS, CLIENTS, async () => {
        const key = await generateKey(service.url);
        const transactionId = expectOnePayment(await Promise.all([pay(service.url, key), pay(service.url, key)]));
        // Not held up by the 409 that its twin may have got: the payment is done once the first text was given.
        expectReplay(await pay(service.url, key), transactionId);
        return transactionId;
      });
      expect(new Set(transactionIds).size).toBe(KEYS);
    },
    LONG_RUN_MS,
  );
});

describeDeployments('concurrent payments with a slow processor', (deployment) => {
  const service = shareService(deployment, { PROCESSOR_DELAY_MS: '2000' });

  it('refuses the others of a thousand requests at once with 409, and the repeat then succeeds', async () => {
    const key = await generateKey(service.url);
    const answers = await payAtOnce(service.url, key, REQUESTS_AT_ONCE);
    const transactionId = expectOnePayment(answers);
    expect(answers.filter((answer) => answer.status === 409).length).toBeGreaterThan(0);
    expectReplay(await pay(service.url, key), transactionId);
  });

  it('processes many keys side by side, and every client that was refused gets the result by asking again', async () => {
    const transactionIds = await inParallel(CLIENTS, CLIENTS, async () => {
      const key = await generateKey(service.url);
      const first = pay(service.url, key);
      const repeat = await until<Answer>('the payment is done', 30_000, async () => {
        const answer = await pay(service.url, key);
        if (answer.status !== 409) return answer;
        expectInProgress(answer);
        return undefined;
      });
      return expectOnePayment([await first, repeat]);
    });
    expect(new Set(transactionIds).size).toBe(CLIENTS);
  });
});
