import { expect, onTestFinished, test } from 'vitest';
import { Idempay } from '#idempay/client';
import { scrape } from '../../testkit/client/metrics.js';
import { givenPaid } from '../../testkit/client/payment-answers.js';
import { openTestStores } from '../../testkit/deployments/distributed-stores.js';
import { runCommandHere } from '../../testkit/processes/command-in-process.js';
import { startWebhookReceiver, writeEndpointFile } from '../../testkit/servers/webhook-receiver.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 30_000;

test('an operator sees, stops and starts an endpoint, and sends again what is set aside', async () => {
  const receiver = await startWebhookReceiver();
  const file = await writeEndpointFile([receiver.endpoint]);
  onTestFinished(async () => {
    await receiver.close();
    await file.remove();
  });
  const stores = await openTestStores();
  const { url } = await stores.serve({ WEBHOOKS_FILE: file.path });
  const idempay = new Idempay({ baseUrl: url });
  const printed = async (...parameters: string[]) => {
    const { code, stdout, stderr } = await runCommandHere(url, ['webhooks', ...parameters]);
    expect([code, stderr]).toEqual([0, '']);
    return stdout;
  };
  await until('the endpoint', DEADLINE_MS, async () => (await idempay.webhooks.list()).length === 1);
  expect(await printed('list')).toMatch(/^shop\t\t0\t20\S+\t\t0\thttp:\/\/127\.0\.0\.1:\d+\n$/);

  expect(JSON.parse(await printed('stop', 'shop', '--json'))).toMatchObject({ name: 'shop', stoppedBy: 'operator' });
  // The run that serves it notices within seconds.
  await until('the stop', DEADLINE_MS, async () =>
    (await scrape(url)).some(({ name, value }) => name === 'idempay_webhook_stopped' && value === 1),
  );
  const { key } = await givenPaid(url);
  await stores.sql("INSERT INTO idempay.webhook_set_aside VALUES ('shop', $1, 'it answered 500', now(), NULL)", [key]);
  expect(await printed('set-aside', 'shop')).toMatch(new RegExp(`^${key}\t20\\S+\t\tit answered 500\n$`));
  const { settlements } = await idempay.webhooks.get('shop');
  expect(settlements).toMatchObject([{ idempotencyKey: key, nextTryAt: null }]);
  expect(await idempay.webhooks.resend('shop', { key })).toBe(1);
  expect(JSON.parse(await printed('resend', 'shop', '--json'))).toEqual({ resent: 1 });
  expect(receiver.taken).toEqual([]);

  expect(JSON.parse(await printed('start', 'shop', '--json'))).toMatchObject({ stoppedBy: null });
  await until('the message', DEADLINE_MS, () => receiver.idsTaken().has(`${key}.completed`));
  await until('nothing to be set aside', DEADLINE_MS, async () => (await idempay.webhooks.get('shop')).setAside === 0);
});

test('an endpoint that nobody knows ends the command', async () => {
  const stores = await openTestStores();
  const { url } = await stores.serve();
  const { code, stderr } = await runCommandHere(url, ['webhooks', 'start', 'other']);
  expect(code).toBe(7);
  expect(stderr).toContain("Webhook 'other' not found.");
  const idempay = new Idempay({ baseUrl: url });
  await expect(idempay.webhooks.stop('other')).rejects.toThrow('not found');
  await expect(idempay.webhooks.get('')).rejects.toThrow("'name'");
  await expect(idempay.webhooks.resend('shop', { key: '' })).rejects.toThrow("'key'");
});
