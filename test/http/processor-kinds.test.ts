import { expect, onTestFinished, test } from 'vitest';
import { ask, generateKey, pay, sendJson } from '../../testkit/client/http-client.js';
import { givenPaid } from '../../testkit/client/payment-answers.js';
import { postTransaction } from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { openTestStores } from '../../testkit/deployments/distributed-stores.js';
import { runDoctor } from '../../testkit/deployments/doctor.js';
import { runCommand } from '../../testkit/processes/command.js';
import { runCommandHere } from '../../testkit/processes/command-in-process.js';
import { serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { until } from '../../testkit/time/until.js';

const MONEY = { amount: '25.00', currency: 'EUR' };
const DISCARD_DEADLINE_MS = 60_000;

/**
 * Bug: an order that was paid in a trial, with the simulated processor, was *paid* at the processor of PROCESSOR_URL too, and no money
 * moved. A service whose settings went missing answered 200 for simulated payments. Cause: one store took payments of both kinds, and a
 * lost setting fell back to the simulated processor. Fix: rule P14.
 */
describeDeployments('simulated and real payments', (deployment) => {
  const payOrder = (url: string, reference: string) =>
    sendJson(`${url}/api/payment?reference=${reference}`, 'POST', MONEY);

  async function openTrial() {
    const [stores, processor] = await Promise.all([deployment.open(), serveReferenceProcessor()]);
    onTestFinished(async () => {
      await stores.close();
      await processor.close();
    });
    const real = { PROCESSOR_URL: processor.url };
    const discard = (...parameters: string[]) =>
      runCommandHere('', ['simulated', 'discard', ...parameters], stores.environment);
    return { stores, processor, real, discard };
  }

  const expectRefused = (start: Promise<unknown>, ...texts: string[]) =>
    Promise.all(texts.map((text) => expect(start).rejects.toThrow(text)));

  test('an order that was paid in a trial is not paid at a processor before the trial was discarded', async () => {
    const { stores, processor, real, discard } = await openTrial();
    const trial = await stores.serve();
    expect((await payOrder(trial.url, 'order-17')).status).toBe(200);
    expect((await postTransaction(trial.url)).status).toBe(201);
    await trial.stop();

    await expectRefused(stores.serve(real), 'were simulated and moved no money', 'idempay simulated discard --yes');
    const doctor = await runDoctor({ ...stores.environment, ...real });
    expect(doctor.wrong).toContainEqual(expect.stringContaining('idempay simulated discard --yes'));
    const unconfirmed = await discard();
    expect(unconfirmed.code).not.toBe(0);
    expect(unconfirmed.stderr).toContain('--yes');
    await until('the sessions of the service to end', DISCARD_DEADLINE_MS, async () => {
      const { code, stderr } = await discard('--yes');
      if (code !== 0) expect(stderr).toContain('a service runs on this database');
      return code === 0;
    });
    expect((await discard('--yes')).stdout).toContain('nothing was removed');

    const service = await stores.serve(real);
    expect((await payOrder(service.url, 'order-17')).status).toBe(200);
    expect(await processor.charges()).toHaveLength(1);
    expect((await ask(`${service.url}/api/transactions`)).json<unknown[]>()).toHaveLength(1);
    const payments = (await ask(`${service.url}/api/payments`)).json<{ processor: string }[]>();
    expect(payments).toHaveLength(1);
  });

  test('nothing is simulated where a payment was made at a processor, whatever asks for it', async () => {
    const { stores, processor, real, discard } = await openTrial();
    const service = await stores.serve(real);
    const { key, transactionId } = await givenPaid(service.url);
    // By another process, because to close a file of SQLite in this one would give up the locks on it.
    const beside = await runCommand('', ['simulated', 'discard', '--yes'], stores.environment);
    expect([beside.code, beside.stderr]).toEqual([1, expect.stringMatching(/in use by another|a service runs/)]);
    await service.stop();

    await expectRefused(stores.serve(), `Payments in`, processor.url, 'set PROCESSOR_URL to the processor');
    await expectRefused(stores.serve({ PROCESSOR_URL: 'simulated' }), 'no money moves');
    const { wrong } = await runDoctor(stores.environment);
    expect(wrong).toContainEqual(expect.stringContaining('PROCESSOR_URL and the payments'));
    await until('nothing but the real payments to stop it', DISCARD_DEADLINE_MS, async () => {
      const { stderr, code } = await discard('--yes');
      expect(code).not.toBe(0);
      return stderr.includes('were made at');
    });
    const again = await stores.serve(real);
    expect((await pay(again.url, key)).json<string>()).toContain(transactionId);
  });

  test('a start without payments decides nothing', async () => {
    const { stores, processor, real } = await openTrial();
    const trial = await stores.serve({ PROCESSOR_URL: 'simulated' });
    expect((await postTransaction(trial.url)).status).toBe(201);
    await ask(`${trial.url}/api/server-generated/generate-key`);
    await trial.stop();
    const service = await stores.serve(real);
    await service.stop();
    const named = await stores.serve({ PROCESSOR_URL: 'simulated' });
    await givenPaid(named.url);
    expect(await processor.charges()).toEqual([]);
  });

  test('a start says how many orders count as paid at another processor', async () => {
    const { stores, real } = await openTrial();
    const sandbox = await serveReferenceProcessor();
    const atSandbox = await stores.serve({ PROCESSOR_URL: sandbox.url });
    await payOrder(atSandbox.url, 'order-17');
    await givenPaid(atSandbox.url);
    await atSandbox.stop();
    await sandbox.close();

    const service = await stores.serve(real);
    const warning = expect.stringContaining(
      `2 orders in this store count as paid at another processor (${sandbox.url}`,
    );
    expect(service.logs.map(({ msg }) => msg)).toContainEqual(warning);
    expect((await runDoctor({ ...stores.environment, ...real })).rows).toContainEqual(
      expect.stringMatching(/^warning .*2 orders in this store count as paid at another processor/),
    );
  });
});

/** Two starts on an empty database: what the first payment is decides, and the other process has nothing to serve any more. */
test('of two processes on an empty database the one of the other kind refuses its payment, and ends', async () => {
  const stores = await openTestStores();
  const processor = await serveReferenceProcessor();
  onTestFinished(() => processor.close());
  const [real, simulated] = await Promise.all([stores.start({ PROCESSOR_URL: processor.url }), stores.start()]);
  await givenPaid(real.url);
  const key = await generateKey(simulated.url);
  expect((await pay(simulated.url, key)).status).toBe(503);
  expect((await simulated.ended).code).toBe(1);
  expect(simulated.logs.find(({ level }) => level === 60)?.msg).toContain('set PROCESSOR_URL to the processor');
  await givenPaid(real.url);
  expect(await processor.charges()).toHaveLength(2);
});
