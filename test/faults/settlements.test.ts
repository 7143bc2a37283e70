import { expect, onTestFinished, test } from 'vitest';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { readSettlements } from '../../testkit/client/settlements.js';
import { alongside } from '../../testkit/concurrency.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { pause, until } from '../../testkit/time/until.js';

const DEADLINE_MS = 60_000;
const KILLS = 3;
const PAYERS = 4;

describeDeployments('a reader of the feed, while services are killed', (deployment) => {
  test('sees every acknowledged payment once, from a cursor that it keeps', async () => {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    // Recovery settles what a kill has left, so that it is shown too.
    const settings = { PROCESSOR_DELAY_MS: '5', LOCK_TTL_SECONDS: '2' };
    let service = await stores.start(settings);
    const acknowledged = new Set<string>();
    const shown: string[] = [];
    let cursor = (await readSettlements(service.url, 'after=now')).next;

    async function payOne(): Promise<void> {
      const { url } = service;
      const key = await generateKey(url).catch(() => undefined);
      const answer = key === undefined ? undefined : await pay(url, key).catch(() => undefined);
      if (key !== undefined && answer?.status === 200) acknowledged.add(key);
      else await pause(20);
    }

    async function readOn(): Promise<void> {
      const query = `after=${cursor}&limit=5`;
      const page = await readSettlements(service.url, query, { Prefer: 'wait=1' }).catch(() => pause(20));
      if (!page) return;
      shown.push(...page.settlements.map(({ idempotencyKey }) => idempotencyKey));
      cursor = page.next;
    }

    await alongside(1, readOn, async () => {
      await alongside(PAYERS, payOne, async () => {
        for (let kills = 0; kills < KILLS; kills += 1) {
          const paid = acknowledged.size;
          await until('payments between two kills', DEADLINE_MS, () => acknowledged.size >= paid + 10);
          await service.kill();
          service = await stores.start(settings);
        }
      });
      await until('the feed to have all of them', DEADLINE_MS, () =>
        [...acknowledged].every((key) => shown.includes(key)),
      );
    });
    expect(new Set(shown).size).toBe(shown.length);
  });
});
