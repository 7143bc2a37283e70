import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Answer, ask, sendJson } from '../../testkit/client/http-client.js';
import { DEPLOYMENTS, type Stores } from '../../testkit/deployments/deployments.js';
import { crashAt } from '../../testkit/processes/crash-points.js';
import { type ProcessorInProcess, serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { until } from '../../testkit/time/until.js';

/**
 * The service is killed at each step of a refund (rule P26): each name is given back once, also by recovery, and the sum in the payment's row is
 * the sum of what was given back.
 */

const MONEY = { amount: '100.50', currency: 'USD' };
const LINE = { amount: '12.50', currency: 'USD' };
const DEADLINE_MS = 30_000;

const bothSides = (steps: readonly string[]) => steps.flatMap((step) => [`before-${step}:1`, `after-${step}:1`]);
const REFUNDING = bothSides(['claim-refund', 'refund', 'settle']);
const RECOVERING = bothSides(['take-over-due', 'look-up-refund', 'settle']);

describe.each(DEPLOYMENTS)('a refund ($name)', (deployment) => {
  let processor: ProcessorInProcess;
  let stores: Stores;

  beforeAll(async () => {
    [processor, stores] = await Promise.all([serveReferenceProcessor(), deployment.open()]);
  });
  afterAll(async () => {
    await processor.close();
    await stores.close();
  });

  const settings = (more: Record<string, string> = {}) => ({
    ...{ PROCESSOR_URL: processor.url, PROCESSOR_TIMEOUT_MS: '1000', LOCK_TTL_SECONDS: '2', ...more },
  });
  const refund = (url: string, order: string) =>
    sendJson(`${url}/api/refund?reference=${order}&refund=line-2`, 'POST', LINE);

  async function served<T>(use: (url: string) => Promise<T>): Promise<T> {
    const { url, stop } = await stores.serve(settings());
    return use(url).finally(stop);
  }

  async function die(at: string, send: (url: string) => Promise<Answer>): Promise<void> {
    const dying = await stores.start(settings(crashAt(at)));
    await expect(send(dying.url)).rejects.toThrow();
    expect(await dying.ended).toMatchObject({ signal: 'SIGKILL' });
  }

  /** Recovery may be faster than the rest of the start: then the process is killed before it listens. */
  async function dieInRecovery(at: string): Promise<void> {
    const dying = await stores.start(settings(crashAt(at))).catch((error: Error) => {
      expect(error.message).toContain('SIGKILL');
    });
    if (dying) expect(await dying.ended).toMatchObject({ signal: 'SIGKILL' });
  }

  async function givenPaid(): Promise<{ order: string; key: string }> {
    const order = `order-${randomUUID()}`;
    const paid = await served((url) => sendJson(`${url}/api/payment?reference=${order}`, 'POST', MONEY));
    expect(paid.status, paid.text).toBe(200);
    return { order, key: String(paid.headers['idempotency-key']) };
  }

  async function expectGivenBackOnce(url: string, key: string): Promise<void> {
    expect((await processor.refundsOf(key)).map(({ status }) => status)).toEqual(['succeeded']);
    expect((await ask(`${url}/api/payments/${key}`)).json()).toMatchObject({ refunded: '12.50' });
  }

  it.each(REFUNDING)('is given back once, if the process dies at %s', async (at) => {
    const { order, key } = await givenPaid();
    await die(at, (url) => refund(url, order));
    await served(async (url) => {
      await until('the refund', DEADLINE_MS, async () => (await refund(url, order)).status === 200);
      await expectGivenBackOnce(url, key);
    });
  });

  it.each(RECOVERING)('is given back once, if recovery dies at %s', async (at) => {
    const { order, key } = await givenPaid();
    // The reply is lost with the process, so that there is something to recover.
    await die('after-refund:1', (url) => refund(url, order));
    await dieInRecovery(at);
    await served(async (url) => {
      const state = async () => (await ask(`${url}/api/payments/${key}/refunds`)).json<{ state: string }[]>()[0]?.state;
      await until('recovery to settle it', DEADLINE_MS, async () => (await state()) === 'COMPLETED');
      await expectGivenBackOnce(url, key);
    });
  });
});
