import { Agent } from 'node:http';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { beginPayment, expectFirst, expectReplay } from '../../testkit/client/payment-answers.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { runToExit, type Service } from '../../testkit/processes/service.js';
import { until } from '../../testkit/time/until.js';

/** One value for each setting that no reading of its documentation allows. */
const BAD_SETTINGS = {
  PORT: '65536',
  IDEMPOTENCY_TTL_SECONDS: 'a day',
  LOCK_TTL_SECONDS: '-1',
  TRANSACTION_CACHE_TTL_SECONDS: '1.5',
  PROCESSOR_URL: 'not an address',
  PROCESSOR_DELAY_MS: '0x10',
  PROCESSOR_TIMEOUT_MS: 'soon',
  PROCESSOR_DEDUP_SECONDS: '1e3',
  PAYLOAD_MISMATCH: 'perhaps',
  LOG_LEVEL: 'shout',
};

describeDeployments('the process', (deployment) => {
  let stores: Stores;
  beforeEach(async () => {
    stores = await deployment.open();
  });
  afterEach(() => stores.close());

  describe('refuses to start', () => {
    it.each([
      ['REDIS_URL', 'redis://127.0.0.1:1', 'DATABASE_URL'],
      ['DATABASE_URL', 'postgres://127.0.0.1:1/idempay', 'REDIS_URL'],
    ])('with %s alone, and says which setting is missing', async (given, value, missing) => {
      const { code, output } = await refusal({ [given]: value, [missing]: '' });
      expect(code).toBeGreaterThan(0);
      expect(output).toContain(given);
      expect(output).toContain(missing);
    });

    it('with bad settings, and names every one of them at once', async () => {
      const { code, output } = await refusal(BAD_SETTINGS);
      expect(code).toBeGreaterThan(0);
      for (const name of Object.keys(BAD_SETTINGS)) expect(output).toContain(name);
    });

    it('with a processor that may take as long as the lock lives', async () => {
      const limits = { LOCK_TTL_SECONDS: '5', PROCESSOR_TIMEOUT_MS: '5000' };
      const { code, output } = await refusal({ ...limits, PROCESSOR_URL: 'http://127.0.0.1:1/' });
      expect(code).toBeGreaterThan(0);
      expect(output).toContain('PROCESSOR_TIMEOUT_MS');

      // Without a processor that can take long the two have nothing to do with each other.
      expect((await (await stores.start(limits)).stop()).code).toBe(0);
    });

    it('on a port that is taken, with a sentence', async () => {
      const { port } = await stores.start();
      const others = await deployment.open();
      try {
        const { code, output } = await runToExit({ ...others.environment, PORT: String(port) });
        expect(code).toBeGreaterThan(0);
        expect(output).toContain(String(port));
        expect(output).toMatch(/in use|taken/i);
        expect(output, 'a stack trace').not.toMatch(/\bat \S.*:\d+:\d+/);
      } finally {
        await others.close();
      }
    });
  });

  describe('starts', () => {
    it('with empty settings as if they were not set', async () => {
      const names = ['HOST', ...Object.keys(BAD_SETTINGS).filter((name) => name !== 'PORT')];
      const { url } = await stores.start(Object.fromEntries(names.map((name) => [name, ''])));
      const key = await generateKey(url);
      const { ttlSeconds } = (await ask(`${url}/api/health/redis/key/${key}`)).json<{ ttlSeconds: number }>();
      expect(ttlSeconds).toBeGreaterThan(86_400 - 60);
      expect(ttlSeconds).toBeLessThanOrEqual(86_400);
    });

    it('on a free port when PORT is 0, and logs which', async () => {
      const service = await stores.start({ PORT: '0' });
      const line = service.logs.find((log) => log.msg === 'listening');
      expect(line?.port).toBeGreaterThan(0);
      expect((await ask(`http://127.0.0.1:${line?.port}/api/health/redis`)).status).toBe(200);
    });

    it('again on the same stores, and knows what was paid', async () => {
      const first = await stores.start();
      const key = await generateKey(first.url);
      const transactionId = expectFirst(await pay(first.url, key));
      await first.stop();

      const second = await stores.start();
      expectReplay(await pay(second.url, key), transactionId);
    });
  });

  describe.each(['SIGTERM', 'SIGINT'] as const)('on %s', (signal) => {
    it('ends with exit code 0, without waiting for connections that are idle', async () => {
      const service = await stores.start();
      await ask(`${service.url}/api/health/redis`); // Leaves a kept-alive connection behind.
      const signalled = performance.now();
      service.signal(signal);

      expect(await service.ended).toEqual({ code: 0, signal: null });
      expect(performance.now() - signalled).toBeLessThan(4000);
    });

    it('answers what is under way before it ends', async () => {
      const { service, payments } = await givenSlowPayments();
      service.signal(signal);

      for (const payment of await Promise.all(payments)) expectFirst(payment);
      expect(await service.ended).toEqual({ code: 0, signal: null });
    });

    it('sent twice, as a process group gets it, drains all the same', async () => {
      const { service, payments } = await givenSlowPayments();
      service.signal(signal);
      service.signal(signal);
      // The listening socket closes when the first one is handled: what comes then is surely a second one.
      await refused(service);
      service.signal(signal);

      for (const payment of await Promise.all(payments)) expectFirst(payment);
      expect(await service.ended).toEqual({ code: 0, signal: null });
    });
  });

  it('keeps what it answered while it drained', async () => {
    const { service, keys, payments } = await givenSlowPayments();
    service.signal('SIGTERM');
    const ids = (await Promise.all(payments)).map((payment) => expectFirst(payment));
    await service.ended;

    const next = await stores.start();
    for (const [n, key] of keys.entries()) expectReplay(await pay(next.url, key), ids[n]);
  });

  function refusal(environment: Record<string, string>): ReturnType<typeof runToExit> {
    return runToExit({ ...stores.environment, ...environment });
  }

  /** A service with payments that are surely under way, and take long enough to be so when a signal comes. */
  async function givenSlowPayments() {
    const service = await stores.start({ PROCESSOR_DELAY_MS: '1000' });
    const keys = await Promise.all(Array.from({ length: 4 }, () => generateKey(service.url)));
    const begun = await Promise.all(keys.map((key) => beginPayment(service.url, key)));
    return { service, keys, payments: begun.map(({ finished }) => finished) };
  }

  /** Resolves once the service takes no new connections. */
  async function refused(service: Service): Promise<void> {
    const code = await until('the port is closed', 5000, () =>
      ask(`${service.url}/api/health/redis`, { agent: new Agent() }).then(
        () => undefined,
        (error: NodeJS.ErrnoException) => error.code,
      ),
    );
    expect(['ECONNREFUSED', 'ECONNRESET']).toContain(code);
  }
});
