import { expect, onTestFinished, test } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { openProcessedService } from '../../testkit/deployments/processed-service.js';

const BUCKET_MS = 600_000;
const BUCKETS = 144;

interface Activity {
  bucketMs: number;
  to: number;
  complete: boolean;
  buckets: { from: number; completed: number; declined: number }[];
}

describeDeployments('GET /api/payments/activity', (deployment) => {
  test('counts what was settled in the last 24 hours by outcome', async () => {
    const { url, processor, close } = await openProcessedService(deployment, {});
    onTestFinished(close);
    const path = `${url}/api/payments/activity`;
    const shown = async () => {
      const answer = await ask(path);
      expect([answer.status, answer.headers['cache-control']]).toEqual([200, 'no-store']);
      return answer.json<Activity>();
    };
    const sumOf = ({ buckets }: Activity) => ({
      completed: buckets.reduce((sum, { completed }) => sum + completed, 0),
      declined: buckets.reduce((sum, { declined }) => sum + declined, 0),
    });

    const before = await shown();
    expect(before).toMatchObject({ bucketMs: BUCKET_MS, complete: true });
    expect(before.buckets).toHaveLength(BUCKETS);
    expect(before.buckets.at(-1)?.from).toBe(before.to - (before.to % BUCKET_MS));
    expect(sumOf(before)).toEqual({ completed: 0, declined: 0 });

    for (let time = 0; time < 3; time += 1) await pay(url, await generateKey(url));
    await processor.behave({ declineRate: 1 });
    for (let time = 0; time < 2; time += 1) await pay(url, await generateKey(url));
    // A key that is not paid with is no payment.
    await generateKey(url);
    expect(sumOf(await shown())).toEqual({ completed: 3, declined: 2 });
    const late = (await shown()).buckets.slice(-2);
    expect(sumOf({ ...before, buckets: late })).toEqual({ completed: 3, declined: 2 });

    expectError(await ask(`${path}?from=2026-11-20`), 400);
    expect((await ask(path, { method: 'HEAD' })).status).toBe(200);
    expect((await ask(path, { method: 'DELETE' })).headers.allow).toBe('GET, HEAD');
  });
});
