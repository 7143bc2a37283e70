import { expect, onTestFinished, test } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { expectFirst, expectReplay } from '../../testkit/client/payment-answers.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { openTestStores } from '../../testkit/deployments/distributed-stores.js';
import { until } from '../../testkit/time/until.js';

const MAX_OPEN_KEYS = '10';
const REFUSED =
  'Too many keys are issued and not paid with yet. Pay with a key that you have, or retry after Retry-After seconds.';
const DEADLINE_MS = 15_000;

const askForKey = (url: string) => ask(`${url}/api/server-generated/generate-key`);

function expectFull(answer: Answer): void {
  expectError(answer, 503, REFUSED);
  expect(answer.headers['retry-after']).toBe('5');
}

/** Asks until there is room: a payment closes its key after its answer. */
const roomAt = (url: string) => until('room', DEADLINE_MS, async () => (await askForKey(url)).status === 200);

describeDeployments('MAX_OPEN_KEYS', (deployment) => {
  async function opened(): Promise<Stores> {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    return stores;
  }

  async function issueAll(url: string, requests = 30): Promise<string[]> {
    const answers: Answer[] = [];
    await inParallel(requests, requests, async () => void answers.push(await askForKey(url)));
    const issued = answers.filter(({ status }) => status === 200);
    for (const refused of answers.filter(({ status }) => status !== 200)) expectFull(refused);
    return issued.map((answer) => answer.json<string>());
  }

  test('bounds issued keys exactly; a payment makes room for one, its repeats for none', async () => {
    const { url } = await (await opened()).serve({ MAX_OPEN_KEYS });
    const keys = await issueAll(url);
    expect(keys).toHaveLength(10);
    const [key = ''] = keys;
    expectFirst(await pay(url, key));
    for (let repeat = 0; repeat < 5; repeat += 1) expectReplay(await pay(url, key));
    await roomAt(url);
    expect(await issueAll(url)).toEqual([]);
  });

  test('counts the keys of before a restart, and those that are paid after it', async () => {
    const stores = await opened();
    const before = await stores.serve({ MAX_OPEN_KEYS });
    const [key = ''] = await issueAll(before.url);
    await before.stop();
    const after = await stores.serve({ MAX_OPEN_KEYS });
    expectFull(await askForKey(after.url));
    expectFirst(await pay(after.url, key));
    await roomAt(after.url);
    expectFull(await askForKey(after.url));
  });

  test('forgets a key that expires', async () => {
    const { url } = await (await opened()).serve({ MAX_OPEN_KEYS, IDEMPOTENCY_TTL_SECONDS: '3' });
    await issueAll(url);
    await roomAt(url);
  });

  test('is off by default', async () => {
    const { url } = await (await opened()).serve();
    await inParallel(30, 30, () => generateKey(url));
  });
});

test('on Redis several processes together issue no key beyond MAX_OPEN_KEYS', async () => {
  const stores = await openTestStores();
  const services = await Promise.all([1, 2].map(() => stores.serve({ MAX_OPEN_KEYS })));
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, index) => askForKey(services[index % services.length]?.url ?? '')),
  );
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
});
