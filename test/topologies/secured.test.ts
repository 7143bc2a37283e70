import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { runToExit, type Service, startService } from '../../testkit/processes/service.js';
import { makeCertificates } from '../../testkit/servers/certificates.js';
import { startRedis } from '../../testkit/servers/redis.js';
import { type SecuredPostgres, startSecuredPostgres } from '../../testkit/servers/secured-postgres.js';
import { type SecuredRedis, startSecuredRedis } from '../../testkit/servers/secured-redis.js';

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

  test('a payment is made when both certificates and both passwords are right', async () => {
    started = await startService(trusted);
    expect((await pay(started.url, await generateKey(started.url))).status).toBe(200);
    await started.kill();
  });

  test('a PostgreSQL server whose certificate nobody vouches for ends the start', async () => {
    const { NODE_EXTRA_CA_CERTS: _, ...untrusting } = trusted;
    const plain = await startRedis();
    const exit = await runToExit({ ...untrusting, REDIS_URL: plain.url });
    await plain.close();
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

  test('a Redis server whose certificate nobody vouches for ends the start', async () => {
    const others = await makeCertificates();
    const stranger = await startSecuredRedis(others.authority);
    try {
      const exit = await runToExit({ ...trusted, REDIS_URL: stranger.url });
      expect(exit.code).toBe(1);
      expect(exit.output).toMatch(/REDIS_URL: .*certificate/);
    } finally {
      await stranger.close();
      await others.remove();
    }
  });

  test('a wrong password of Redis ends the start, and is not shown', async () => {
    const wrong = redis.url.replace(/:[^:@]*@/, ':not-this-one@');
    const exit = await runToExit({ ...trusted, REDIS_URL: wrong });
    expect(exit.code).toBe(1);
    expect(exit.output).toMatch(/REDIS_URL: .*WRONGPASS/);
    expect(exit.output).not.toContain('not-this-one');
  });
});
