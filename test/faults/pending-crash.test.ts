import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Answer, ask, sendJson } from '../../testkit/client/http-client.js';
import { DEPLOYMENTS, type Stores } from '../../testkit/deployments/deployments.js';
import { crashAt } from '../../testkit/processes/crash-points.js';
import { type ProcessorInProcess, serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { until } from '../../testkit/time/until.js';

/**
 * The service is killed at each step of a payment that waits for its payer, and of a cancellation that ends it (rules P24 and P25). Nothing
 * is charged twice, nothing is charged after an acknowledged cancellation, and no outcome is lost.
 */

const BODY = { amount: '100.50', currency: 'USD', returnUrl: 'https://shop.example/back' };
const DEADLINE_MS = 30_000;

const bothSides = (steps: readonly string[], nth = 1) =>
  steps.flatMap((step) => [`before-${step}:${nth}`, `after-${step}:${nth}`]);
const PAYING = bothSides(['begin', 'claim', 'charge', 'leave', 'release']);
const ENDING = [
  ...bothSides(['begin', 'cancel', 'begin-ending', 'end', 'settle', 'finish']),
  // The next attempt is closed.
  ...bothSides(['begin', 'cancel'], 2),
  ...bothSides(['forget']),
];
const RECOVERING = bothSides(['due-pending', 'look-up', 'take-over', 'settle', 'finish']);

describe.each(DEPLOYMENTS)('a payment that waits ($name)', (deployment) => {
  let processor: ProcessorInProcess;
  let stores: Stores;

  beforeAll(async () => {
    [processor, stores] = await Promise.all([
      serveReferenceProcessor({ behaviour: { pendingRate: 1 } }),
      deployment.open(),
    ]);
  });
  afterAll(async () => {
    await processor.close();
    await stores.close();
  });

  const settings = (more: Record<string, string> = {}) => ({
    ...{ PROCESSOR_URL: processor.url, PROCESSOR_TIMEOUT_MS: '1000', LOCK_TTL_SECONDS: '2', ...more },
  });
  const pay = (url: string, order: string, attempt = 1) =>
    sendJson(`${url}/api/payment?reference=${order}&attempt=${attempt}`, 'POST', BODY);
  const cancel = (url: string, order: string) =>
    ask(`${url}/api/payment-cancellation?reference=${order}`, { method: 'POST' });
  const confirm = (key: string) => ask(`${processor.url}/pending/${key}/confirm`, { method: 'POST' });
  const keyOf = ({ headers }: Answer) => String(headers['idempotency-key']);

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

  async function served<T>(use: (url: string) => Promise<T>): Promise<T> {
    const { url, stop } = await stores.serve(settings());
    return use(url).finally(stop);
  }

  /** Asks again and again until the answer has this status. */
  async function untilAnswered(status: number, send: () => Promise<Answer>): Promise<Answer> {
    let answer: Answer | undefined;
    await until(`the answer ${status}`, DEADLINE_MS, async () => {
      answer = await send();
      return answer.status === status;
    });
    return answer as Answer;
  }

  const givenPending = (order: string) => served(async (url) => keyOf(await untilAnswered(202, () => pay(url, order))));

  async function expectChargedOnce(key: string): Promise<void> {
    expect((await processor.chargesOf(key)).map(({ status }) => status)).toEqual(['succeeded']);
  }

  it.each(PAYING)('is charged once, whoever dies at %s', async (at) => {
    const order = `order-${randomUUID()}`;
    await die(at, (url) => pay(url, order));
    await served(async (url) => {
      const key = keyOf(await untilAnswered(202, () => pay(url, order)));
      await confirm(key);
      await untilAnswered(200, () => pay(url, order));
      await expectChargedOnce(key);
    });
  });

  it.each(RECOVERING)('is settled also if recovery dies at %s', async (at) => {
    const key = await givenPending(`order-${randomUUID()}`);
    await confirm(key);
    await dieInRecovery(at);
    await served(async (url) => {
      const state = async () => (await ask(`${url}/api/payments/${key}`)).json<{ state: string }>().state;
      await until('recovery to settle it', DEADLINE_MS, async () => (await state()) === 'COMPLETED');
    });
    await expectChargedOnce(key);
  });

  it.each(ENDING)('is never charged after its cancellation was acknowledged, whoever died at %s', async (at) => {
    const order = `order-${randomUUID()}`;
    const key = await givenPending(order);
    await die(at, (url) => cancel(url, order));
    await served(async (url) => {
      await untilAnswered(200, () => cancel(url, order));
      await confirm(key);
      expect((await pay(url, order, 2)).status).toBe(410);
      expect((await pay(url, order)).status).toBe(422);
      expect((await cancel(url, order)).status).toBe(200);
    });
    expect((await processor.chargesOf(key)).map(({ status }) => status)).toEqual(['declined']);
  });
});
