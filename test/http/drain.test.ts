import { Writable } from 'node:stream';
import { type Logger, pino } from 'pino';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type App, createApp } from '#idempay/app.js';
import { readConfig } from '#idempay/config.js';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { expectReplay } from '../../testkit/client/payment-answers.js';
import { shownPaymentOf } from '../../testkit/client/payment-records.js';
import { requestText, sendAndVanish } from '../../testkit/client/raw-http.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { expectUnknown } from '../../testkit/deployments/processor-environment.js';
import { type ReferenceProcessor, startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { LogLine, Service } from '../../testkit/processes/service.js';
import { until } from '../../testkit/time/until.js';

/** Long enough to be under way when the signal comes, and well within what a drain waits for. */
const CHARGE_MS = 1_500;
/** Longer than any test. */
const ENDLESS_MS = '600000';
const SHORT_DRAIN_MS = 200;
const DEADLINE_MS = 10_000;
const BODY = '{"amount":"100.50","currency":"USD"}';

/**
 * Bug: a drain waited for connections, so a payment whose client had disconnected was cut: nothing was logged, row and lock
 * stayed leased, and a repeat after the restart got 409. Cause: only recovery's attempts were awaited. Fix: the drain waits
 * for every request under way, and what it must cut is given up while the stores are still open.
 */
describeDeployments('a drain', (deployment) => {
  let stores: Stores;
  let processor: ReferenceProcessor;

  beforeEach(async () => {
    [stores, processor] = await Promise.all([
      deployment.open(),
      startReferenceProcessor({ behaviour: { latencyMs: CHARGE_MS } }),
    ]);
  });
  afterEach(async () => {
    await stores.close();
    await processor.close();
  });

  /** The client has disconnected, and the payment is claimed. */
  async function givenForsakenPayment(service: Pick<Service, 'url' | 'port'>): Promise<string> {
    const key = await generateKey(service.url);
    const headers = [`Idempotency-Key: ${key}`, 'Content-Type: application/json', `Content-Length: ${BODY.length}`];
    await sendAndVanish(service.port, requestText('POST /api/payment HTTP/1.1', headers, BODY));
    await until('the payment to be claimed', DEADLINE_MS, async () => {
      return (await shownPaymentOf(service.url, key)).state === 'PROCESSING';
    });
    return key;
  }

  it('waits for a payment whose client has disconnected: it is charged once, and repeated after a restart', async () => {
    const settings = { PROCESSOR_URL: processor.url };
    const service = await stores.start(settings);
    const key = await givenForsakenPayment(service);
    expect(await service.stop()).toEqual({ code: 0, signal: null });

    const next = await stores.start(settings);
    expectReplay(await pay(next.url, key));
    expect(await processor.chargesOf(key)).toHaveLength(1);
  });

  it('that must cut a payment gives it up and names it in the log, and a repeat pays it at once', async () => {
    const { app, port, logs } = await startApp({ PROCESSOR_DELAY_MS: ENDLESS_MS });
    const url = `http://127.0.0.1:${port}`;
    const forsaken = await givenForsakenPayment({ url, port });
    const key = await generateKey(url);
    const answer = pay(url, key);
    await until('the payment to be claimed', DEADLINE_MS, async () => {
      return (await shownPaymentOf(url, key)).state === 'PROCESSING';
    });
    const ids = await Promise.all([forsaken, key].map(async (each) => (await shownPaymentOf(url, each)).transactionId));

    await app.drain(SHORT_DRAIN_MS);
    expectUnknown(await answer);
    const named = logs.filter(({ msg }) => msg === 'the outcome of a payment is not known yet');
    expect(named.map(({ transactionId }) => transactionId).sort()).toEqual(ids.sort());

    const next = await stores.start();
    for (const each of [forsaken, key]) {
      const repeat = await pay(next.url, each);
      expect(repeat.status, repeat.text).toBe(200);
    }
  });

  it('that must cut a charge over the network gives it up, and the repeat looks it up', async () => {
    const { app, port } = await startApp({ PROCESSOR_URL: processor.url });
    const key = await givenForsakenPayment({ url: `http://127.0.0.1:${port}`, port });
    await app.drain(SHORT_DRAIN_MS);

    const next = await stores.start({ PROCESSOR_URL: processor.url });
    // Recovery may be at it already, and the processor may still be at work.
    await until('the payment to be finished', DEADLINE_MS, async () => (await pay(next.url, key)).status === 200);
    expect(await processor.chargesOf(key)).toHaveLength(1);
  });

  /** The service in this process, because a started one drains for as long as an orchestrator waits. */
  async function startApp(settings: Record<string, string>): Promise<{ app: App; port: number; logs: LogLine[] }> {
    const logs: LogLine[] = [];
    const lines = new Writable({
      write(line: Buffer, _encoding, done) {
        logs.push(JSON.parse(String(line)) as LogLine);
        done();
      },
    });
    const config = readConfig({ PORT: '0', ...stores.environment, ...settings });
    const app = await createApp(config, pino(lines) as Logger);
    return { app, port: await app.listen(), logs };
  }
});
