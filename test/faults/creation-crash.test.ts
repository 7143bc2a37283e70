import { randomUUID } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import type { Answer } from '../../testkit/client/http-client.js';
import {
  createdIn,
  draft,
  keyed,
  listTransactions,
  newAccount,
  postBatch,
  type Transaction,
} from '../../testkit/client/transactions.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { crashAt } from '../../testkit/processes/crash-points.js';
import type { Service } from '../../testkit/processes/service.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { patience } from '../../testkit/time/patience.js';
import { pause } from '../../testkit/time/until.js';

const KILLS = 5;
const CLIENTS = 4;
const ROWS = 20;
/** Longer than a few batches take, shorter than a start. */
const LIVES_MS = 400;
const PATIENCE_MS = 60_000;
/** Long enough that a start is not slowed by the requests that wait for it. */
const RETRY_MS = 100;

describeDeployments('a service that dies in a create with a key', (deployment) => {
  async function openStores(): Promise<Stores> {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    return stores;
  }
  const rowsOf = (fromAccount: string) =>
    Array.from({ length: ROWS }, (_, index) => draft({ fromAccount, amount: `${index + 1}` }));
  const listed = async (url: string, from: string) => (await listTransactions(url, { from })).json<Transaction[]>();

  test.each([
    ['after the commit and before the answer', 'after-create-all:1', ROWS],
    ['before the commit', 'before-create-all:1', 0],
  ])('%s has all of its rows or none, and a repeat makes them complete', async (_when, at, expected) => {
    const stores = await openStores();
    const account = newAccount();
    const key = randomUUID();
    const dying = await stores.start(crashAt(at));
    await expect(postBatch(dying.url, rowsOf(account), keyed(key))).rejects.toThrow();
    expect(await dying.ended).toMatchObject({ signal: 'SIGKILL' });

    const { url } = await stores.serve();
    const before = await listed(url, account);
    expect(before).toHaveLength(expected);
    const repeat = await postBatch(url, rowsOf(account), keyed(key));
    expect(repeat.headers['idempotent-replayed']).toBe(expected > 0 ? 'true' : undefined);
    if (expected > 0) expect(createdIn(repeat)).toEqual(before);
    expect(await listed(url, account)).toEqual(createdIn(repeat));
    const again = await postBatch(url, rowsOf(account), keyed(key));
    expect([again.headers['idempotent-replayed'], again.text]).toEqual(['true', repeat.text]);
  });

  test('killed again and again has every batch exactly once, with the ids that were acknowledged', async () => {
    const stores = await openStores();
    const random = seededRandom(seedFrom('CREATION_CRASH_SEED'));
    let service: Service = await stores.start();
    let isOver = false;
    const acknowledged = new Map<string, Answer>();
    let repeats = 0;

    async function createOnce(account: string): Promise<void> {
      const key = randomUUID();
      const begunAt = performance.now();
      for (;;) {
        const answer: Answer | undefined = await postBatch(service.url, rowsOf(account), keyed(key)).catch(
          () => undefined,
        );
        if (answer?.status === 201) {
          acknowledged.set(account, answer);
          return;
        }
        expect([undefined, 503], answer?.text).toContain(answer?.status);
        const waitedMs = performance.now() - begunAt;
        // The machine is measured only if the time is over.
        if (waitedMs > PATIENCE_MS && waitedMs > patience(PATIENCE_MS))
          throw new Error('the service did not come back');
        repeats += 1;
        await pause(RETRY_MS);
      }
    }

    const clients = Array.from({ length: CLIENTS }, async () => {
      while (!isOver) await createOnce(newAccount());
    });
    for (let kill = 0; kill < KILLS; kill += 1) {
      await pause(random.fraction() * LIVES_MS);
      await service.kill();
      service = await stores.start();
    }
    isOver = true;
    await Promise.all(clients);

    const replays = [...acknowledged.values()].filter(({ headers }) => headers['idempotent-replayed'] === 'true');
    console.log(
      `${acknowledged.size} batches, ${repeats} requests repeated, ${replays.length} of them told the first result`,
    );
    expect(repeats).toBeGreaterThan(0);
    for (const [account, answer] of acknowledged) {
      expect(await listed(service.url, account)).toEqual(createdIn(answer));
    }
    const all = (await listTransactions(service.url)).json<Transaction[]>();
    expect(all).toHaveLength(acknowledged.size * ROWS);
  });
});
