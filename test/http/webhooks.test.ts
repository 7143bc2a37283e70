import { randomUUID } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, sendJson } from '../../testkit/client/http-client.js';
import { scrape, valuesBy } from '../../testkit/client/metrics.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { answerWith, startWebhookReceiver, TAKE, writeEndpointFile } from '../../testkit/servers/webhook-receiver.js';
import { until } from '../../testkit/time/until.js';

const MONEY = { amount: '100.50', currency: 'USD' };
const DEADLINE_MS = 60_000;
const GONE = 410;

interface Shown {
  readonly name: string;
  readonly stoppedBy: string | null;
  readonly receiver: string | null;
  readonly behind: number | null;
  readonly setAside: number;
  readonly settlements: readonly { readonly idempotencyKey: string }[];
}

describeDeployments('webhooks for operators', (deployment) => {
  async function given() {
    const receiver = await startWebhookReceiver();
    const file = await writeEndpointFile([receiver.endpoint]);
    const stores = await deployment.open();
    onTestFinished(async () => {
      await stores.close();
      await receiver.close();
      await file.remove();
    });
    const { url, logs } = await stores.serve({ WEBHOOKS_FILE: file.path });
    const post = (path: string) => ask(`${url}/api/webhooks/${path}`, { method: 'POST' });
    const shown = async (name = 'shop') => (await ask(`${url}/api/webhooks/${name}`)).json<Shown>();
    const paid = async () => {
      const answer = await sendJson(`${url}/api/payment?reference=order-${randomUUID()}`, 'POST', MONEY);
      expect(answer.status, answer.text).toBe(200);
      return String(answer.headers['idempotency-key']);
    };
    await until('the endpoint to be there', DEADLINE_MS, async () => {
      const { webhooks } = (await ask(`${url}/api/webhooks`)).json<{ webhooks: Shown[] }>();
      return webhooks.length === 1;
    });
    return { receiver, file, url, logs, post, shown, paid };
  }

  test('an endpoint is listed, stopped and started, and then gets what was paid meanwhile', async () => {
    const { url, receiver, file, post, shown, paid } = await given();
    const listed = (await ask(`${url}/api/webhooks`)).json();
    expect(listed).toEqual({
      webhooks: [
        {
          name: 'shop',
          receiver: new URL(receiver.endpoint.url).origin,
          client: null,
          stoppedBy: null,
          deliveredUntil: expect.stringMatching(/^20\d\d-/),
          behind: 0,
          behindSince: null,
          setAside: 0,
        },
      ],
    });
    const stopped = await post('shop/stop');
    expect(stopped.json()).toMatchObject({ name: 'shop', stoppedBy: 'operator' });
    await until('the metric', DEADLINE_MS, async () =>
      (await scrape(url)).some(({ name, value }) => name === 'idempay_webhook_stopped' && value === 1),
    );
    const key = await paid();
    await paid();
    await until('both to wait', DEADLINE_MS, async () => (await shown()).behind === 2);
    const { settledAt } = (await ask(`${url}/api/payments/${key}`)).json<{ settledAt: string }>();
    expect(await shown()).toMatchObject({ behindSince: settledAt });
    expect((await post('shop/start')).json()).toMatchObject({ stoppedBy: null });
    await until('the message', DEADLINE_MS, () => receiver.idsTaken().has(`${key}.completed`));
    await until('nothing to wait', DEADLINE_MS, async () => (await shown()).behind === 0);
    expect(await shown()).toMatchObject({ behindSince: null, settlements: [] });
    await file.change([]);
    await until('the file to be read', DEADLINE_MS, async () => (await shown()).receiver === null);
    expect(await shown()).toMatchObject({ behind: null, behindSince: null });
  });

  test('a receiver that answers 410 gets nothing more until it is started, and the log says so', async () => {
    const { receiver, post, shown, paid, logs } = await given();
    receiver.answer(answerWith(GONE));
    const key = await paid();
    await until('the stop', DEADLINE_MS, async () => (await shown()).stoppedBy === 'receiver');
    await until('the alarm', DEADLINE_MS, () => logs.some(({ msg }) => msg?.includes('answered 410')));
    receiver.answer(TAKE);
    const other = await paid();
    await post('shop/start');
    await until('both', DEADLINE_MS, () => [key, other].every((each) => receiver.idsTaken().has(`${each}.completed`)));
  });

  test('deliveries are counted by their result', async () => {
    const { url, receiver, paid } = await given();
    receiver.answer(answerWith(500));
    const key = await paid();
    await until('a try', DEADLINE_MS, () => receiver.received.length > 0);
    receiver.answer(TAKE);
    await until('the message', DEADLINE_MS, () => receiver.idsTaken().has(`${key}.completed`));
    await until('the counts', DEADLINE_MS, async () => {
      const counts = valuesBy(await scrape(url), 'idempay_webhook_deliveries_total', 'result');
      return Number(counts.taken) >= 1 && Number(counts.refused) >= 1;
    });
  });

  test('an endpoint that nobody knows is a 404, and a key that is none is a 400', async () => {
    const { url, post } = await given();
    expectError(await ask(`${url}/api/webhooks/other`), 404, /Webhook 'other' not found/);
    for (const verb of ['start', 'stop', 'resend']) expectError(await post(`other/${verb}`), 404, /not found/);
    expectError(await post('shop/resend?key=order-17'), 400, /'key'/);
    expect((await post('shop/resend')).json()).toEqual({ resent: 0 });
  });

  /**
   * Bug: the name `%00` was answered 503 on PostgreSQL. Cause: the store was asked for every name, and a text of PostgreSQL cannot have a
   * NUL. Fix: the store is asked only for a name that an endpoint may have.
   */
  test.each(['%00', 'shop%00', 'a%20b', '%E2%82%AC', 'n'.repeat(65)])(
    'a name that no endpoint may have is a 404: %s',
    async (name) => {
      const { url, post } = await given();
      expectError(await ask(`${url}/api/webhooks/${name}`), 404, /^Webhook '.*' not found/);
      for (const verb of ['start', 'stop', 'resend']) expectError(await post(`${name}/${verb}`), 404, /not found/);
    },
  );
});
