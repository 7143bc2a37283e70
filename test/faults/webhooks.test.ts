import { randomUUID } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { ask, sendJson } from '../../testkit/client/http-client.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { startWebhookReceiver, writeEndpointFile } from '../../testkit/servers/webhook-receiver.js';
import { until } from '../../testkit/time/until.js';

const MONEY = { amount: '100.50', currency: 'USD' };
const DEADLINE_MS = 60_000;
const MANY = 250;
const AT_ONCE = 16;

/** Rule E3: every settlement is delivered, none before its commit, and each repeat has the same id. */
describeDeployments('webhooks', (deployment) => {
  async function givenStores() {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    return stores;
  }
  async function givenReceiver(name?: string) {
    const receiver = await startWebhookReceiver(name);
    onTestFinished(() => receiver.close());
    return receiver;
  }
  async function givenFile(...receivers: readonly Awaited<ReturnType<typeof givenReceiver>>[]) {
    const file = await writeEndpointFile(receivers.map(({ endpoint }) => endpoint));
    onTestFinished(file.remove);
    return file;
  }
  /** The key of a payment that the service has answered as paid. */
  async function paid(url: string): Promise<string> {
    const answer = await sendJson(`${url}/api/payment?reference=order-${randomUUID()}`, 'POST', MONEY);
    expect(answer.status, answer.text).toBe(200);
    return String(answer.headers['idempotency-key']);
  }
  const idOf = (key: string) => `${key}.completed`;
  /** A new endpoint begins at the bound, so what is paid before that is not told. */
  const untilServed = (receiver: Awaited<ReturnType<typeof givenReceiver>>, url: string) =>
    until('the endpoint to be served', DEADLINE_MS, async () => {
      await paid(url);
      return receiver.taken.length > 0;
    });

  test('every payment is told once, signed, with its record', async () => {
    const receiver = await givenReceiver();
    const file = await givenFile(receiver);
    const stores = await givenStores();
    const { url } = await stores.serve({ WEBHOOKS_FILE: file.path });
    await untilServed(receiver, url);
    const keys: string[] = [];
    await inParallel(MANY, AT_ONCE, async () => void keys.push(await paid(url)));
    await until('all to be told', DEADLINE_MS, () => keys.every((key) => receiver.idsTaken().has(idOf(key))));
    expect(receiver.taken.length).toBe(receiver.idsTaken().size);
    expect(receiver.unsigned).toEqual([]);
    const [key = ''] = keys;
    const message = receiver.received.find(({ id }) => id === idOf(key));
    expect(message?.type).toBe('payment.completed');
    expect(message?.data).toEqual((await ask(`${url}/api/payments/${key}`)).json());
  });
});
