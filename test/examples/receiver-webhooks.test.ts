import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { sendJson } from '../../testkit/client/http-client.js';
import { scrape } from '../../testkit/client/metrics.js';
import { alongside } from '../../testkit/concurrency.js';
import { describeOneDeployment } from '../../testkit/deployments/deployments.js';
import { LANGUAGES, openExampleReceiver } from '../../testkit/processes/example-receivers.js';
import { compileExamples, type Examples } from '../../testkit/processes/examples.js';
import { requirePython } from '../../testkit/processes/python.js';
import { changeStored } from '../../testkit/protocol/stored-rows.js';
import { startTcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { newWebhookSecret, writeEndpointFile } from '../../testkit/servers/webhook-receiver.js';
import { until } from '../../testkit/time/until.js';

const MONEY = { amount: '24.90', currency: 'EUR' };
const DEADLINE_MS = 60_000;
const KILLS = 3;
const PAID_BETWEEN_KILLS = 5;
const ANOTHER_INCARNATION =
  "INSERT INTO settlement_incarnations SELECT max(number) + 1, '0123456789abcdef', began_at FROM settlement_incarnations";

/** Deliveries with this result, of the one endpoint of a service since its start. */
async function delivered(url: string, result: 'taken' | 'refused'): Promise<number> {
  const samples = await scrape(url);
  const counts = samples.filter(
    ({ name, labels }) => name === 'idempay_webhook_deliveries_total' && labels.result === result,
  );
  return counts.reduce((sum, { value }) => sum + value, 0);
}

/** The store has no part in what a receiver does. Rule E4. */
describeOneDeployment('webhooks of the service', (deployment) => {
  let examples: Examples;
  beforeAll(async () => {
    [examples] = await Promise.all([compileExamples(), requirePython()]);
  });
  afterAll(() => examples?.remove());

  test.each(LANGUAGES)(
    'the receiver in %s does the work of each once, also if it is killed or gets a webhook again',
    async (language) => {
      const kept = await openExampleReceiver(language, examples);
      onTestFinished(kept.remove);
      const secret = newWebhookSecret();
      let receiver = await kept.start(newWebhookSecret());
      onTestFinished(async () => void (await receiver.kill()));
      // The address stays the same, although each start has a port of its own.
      const way = await startTcpProxy(receiver.port);
      onTestFinished(() => way.close());
      const restart = async () => {
        await receiver.kill();
        receiver = await kept.start(secret);
        way.leadTo(receiver.port);
      };
      const endpoint = {
        url: `http://127.0.0.1:${way.port}/webhooks/idempay`,
        secrets: [secret],
        private: true as const,
      };
      const file = await writeEndpointFile([{ name: 'shop', ...endpoint }]);
      onTestFinished(file.remove);
      const stores = await deployment.open();
      onTestFinished(() => stores.close());
      let service = await stores.serve({ WEBHOOKS_FILE: file.path });
      const works: string[] = [];
      const pay = async () => {
        const reference = `order-${randomUUID()}`;
        const answer = await sendJson(`${service.url}/api/payment?reference=${reference}`, 'POST', MONEY);
        expect(answer.status, answer.text).toBe(200);
        works.push(`paid: ${reference}, ${MONEY.amount} ${MONEY.currency}`);
      };

      // It has another secret at first, and refuses everything. An endpoint begins at the bound, so its first payments are not told.
      await until('a refusal', DEADLINE_MS, async () => {
        await pay();
        return (await delivered(service.url, 'refused')) > 0;
      });
      expect(await kept.works()).toEqual([]);
      await restart();
      await alongside(1, pay, async () => {
        for (let kill = 0; kill < KILLS; kill += 1) {
          const before = works.length;
          await until('some payments', DEADLINE_MS, () => works.length >= before + PAID_BETWEEN_KILLS);
          await restart();
        }
      });
      const isDone = async () => (await kept.works()).includes(works.at(-1) as string);
      await until('the work of the last payment', 2 * DEADLINE_MS, isDone);
      await until('the work of all that were told', 2 * DEADLINE_MS, async () => {
        const behind = (await scrape(service.url)).find(({ name }) => name === 'idempay_webhook_behind_seconds');
        return behind?.value === 0;
      });

      // Another incarnation of the feed: the service tells the last ten minutes once more, with the same ids.
      await service.stop();
      await changeStored(stores, { embedded: ANOTHER_INCARNATION, distributed: '' });
      service = await stores.serve({ WEBHOOKS_FILE: file.path });
      const all = works.length;
      await until('all to be told again', DEADLINE_MS, async () => (await delivered(service.url, 'taken')) >= all);
      await restart();
      await pay();
      await until('the work of the last payment', DEADLINE_MS, isDone);
      // Each once, also those that were paid before the endpoint began, which the repeat has told.
      await until('all work', DEADLINE_MS, async () => (await kept.works()).length >= works.length);
      expect(await kept.works()).toEqual(works.toSorted());
    },
  );
});
