import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ask, generateKey, pay } from '../support/http-client.js';
import { makeCertificates } from '../support/servers/certificates.js';
import { type SecuredPostgres, startSecuredPostgres } from '../support/servers/secured-postgres.js';
import { type SecuredRedis, startSecuredRedis } from '../support/servers/secured-redis.js';
import { runToExit, type Service, startService } from '../support/service.js';

/** What is refused over TLS and without the right password; that everything works with them, the suites show. */
describe('TLS and passwords', () => {
  let postgres: SecuredPostgres;
  let redis: SecuredRedis;
  let trusted: Record<string, string>;
  let started: Service | undefined;

  beforeAll(async () => {
    postgres = await startSecuredPostgres(['fsync=off']);
    redis = await startSecuredRedis(postgres.authority);
    trusted = { NODE_EXTRA_CA_CERTS: postgres.authority, DATABASE_URL: postgres.userUrl, REDIS_URL: redis.url };
  });
  afterAll(async () => {
    await Promise.all([redis?.close(), postgres?.close()]);
  });

  /** How a service with these settings answers to a health check and to a key being asked for. */
  async function served(environment: Record<string, string>): Promise<{ health: number; key: number; logs: string }> {
    started = await startService(environment);
    try {
      const health = await ask(`${started.url}/api/health/redis`);
      const key = await ask(`${started.url}/api/server-generated/generate-key`);
      return { health: health.status, key: key.status, logs: JSON.stringify(started.logs) };
    } finally {
      await started.kill();
    }
  }

  test('a payment is made when both certificates and both passwords are right', async () => {
    started = await startService(trusted);
    expect((await pay(started.url, await generateKey(started.url))).status).toBe(200);
    await started.kill();
  });

  test('a PostgreSQL server whose certificate nobody vouches for ends the start', async () => {
    const { NODE_EXTRA_CA_CERTS: _, ...untrusting } = trusted;
    const exit = await runToExit(untrusting);
    expect(exit.code).toBe(1);
    expect(exit.output).toMatch(/DATABASE_URL: PostgreSQL cannot be used/);
  });

  test('a wrong password of PostgreSQL ends the start, and is not shown', async () => {
    const wrong = new URL(postgres.userUrl);
    wrong.password = 'not-this-one';
    const exit = await runToExit({ ...trusted, DATABASE_URL: String(wrong) });
    expect(exit.code).toBe(1);
    expect(exit.output).toMatch(/DATABASE_URL: PostgreSQL cannot be used/);
    expect(exit.output).not.toContain('not-this-one');
  });

  test('a PostgreSQL user who must come over TLS is not let in without', async () => {
    const exit = await runToExit({ ...trusted, DATABASE_URL: postgres.userUrl.replace('verify-full', 'disable') });
    expect(exit.code).toBe(1);
  });

  test('a Redis server whose certificate nobody vouches for is not used', async () => {
    const others = await makeCertificates();
    const stranger = await startSecuredRedis(others.authority);
    try {
      expect(await served({ ...trusted, REDIS_URL: stranger.url })).toMatchObject({ health: 503, key: 503 });
    } finally {
      await stranger.close();
      await others.remove();
    }
  });

  test('a wrong password of Redis is not let in, and is not shown', async () => {
    const wrong = redis.url.replace(/:[^:@]*@/, ':not-this-one@');
    const { logs, ...answers } = await served({ ...trusted, REDIS_URL: wrong });
    expect(answers).toEqual({ health: 503, key: 503 });
    expect(logs).not.toContain('not-this-one');
  });
});
