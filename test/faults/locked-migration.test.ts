import { cp, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { migrate } from '#idempay/deployments/distributed/postgres/migrate.js';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { expectFirst } from '../../testkit/client/payment-answers.js';
import { manageStores, type Stores } from '../../testkit/deployments/deployments.js';
import { spawnProgram } from '../../testkit/processes/service.js';
import { SERVICE } from '../../testkit/programs.js';
import { runSql } from '../../testkit/servers/postgres.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { freePort } from '../../testkit/servers/server-process.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';
import { until } from '../../testkit/time/until.js';

const MIGRATIONS = new URL('../../dist/deployments/distributed/postgres/migrations/', import.meta.url);
const NEXT_MIGRATION = '9999_next.sql';
const DEADLINE_MS = 20_000;
/** One wait for the lock, and what a payment needs on a busy machine. */
const LONGEST_PAYMENT_MS = 3_000;
/** Two tries of the migration lie between. */
const LOCKED_MS = 7_000;

/**
 * Bug: an upgrade while pg_dump ran stopped every payment, until the dump ended.
 * Cause: the ALTER waited for the dump's lock, and every later statement on the table waited behind the ALTER.
 * Fix: a migration waits for a lock for a second only, and is tried again while processes of the version before go on.
 */
describe('a migration behind a lock', { timeout: 60_000 }, () => {
  let redis: RedisServer;
  let database: Awaited<ReturnType<typeof createSharedDatabase>>;
  let stores: Stores;
  let folder: string;

  beforeAll(async () => {
    redis = await startRedis();
    folder = await mkdtemp(join(tmpdir(), 'idempay-migrations-'));
  });
  beforeEach(async () => {
    database = await createSharedDatabase();
    stores = manageStores({ REDIS_URL: redis.url, DATABASE_URL: database.url }, database.drop);
    return () => stores.close();
  });
  afterAll(() => Promise.all([redis?.close(), rm(folder, { recursive: true })]));

  /** A folder with the migrations of some version. */
  async function migrationsOf(version: string, has: (name: string) => boolean): Promise<URL> {
    const target = join(folder, version);
    await mkdir(target);
    for (const name of await readdir(MIGRATIONS))
      if (has(name)) await cp(new URL(name, MIGRATIONS), join(target, name));
    return new URL(`${pathToFileURL(target)}/`);
  }

  /** As pg_dump holds it, until the function that it returns is called. */
  async function lockPayments(): Promise<() => Promise<void>> {
    const session = new pg.Client({ connectionString: database.url });
    await session.connect();
    session.on('error', () => {});
    onTestFinished(() => session.end());
    await session.query('BEGIN; LOCK TABLE idempay.payments IN ACCESS SHARE MODE');
    return async () => void (await session.query('COMMIT'));
  }

  test('lets the processes of the version before pay all the while', async () => {
    const { url } = await stores.serve();
    const next = await migrationsOf('next', () => true);
    await writeFile(new URL(NEXT_MIGRATION, next), 'ALTER TABLE idempay.payments ADD COLUMN next text;');
    const release = await lockPayments();

    const notices: string[] = [];
    let migrated = false;
    const migrating = migrate(database.url, (sentence) => notices.push(sentence), next).then(() => {
      migrated = true;
    });
    let longestMs = 0;
    const releasedAt = performance.now() + LOCKED_MS;
    while (performance.now() < releasedAt) {
      const askedAt = performance.now();
      expectFirst(await pay(url, await generateKey(url)));
      longestMs = Math.max(longestMs, performance.now() - askedAt);
    }
    expect(longestMs).toBeLessThan(LONGEST_PAYMENT_MS);
    expect(migrated).toBe(false);
    expect(notices).toEqual([expect.stringMatching(/locks a table that the migration 9999_next.sql changes/)]);

    await release();
    await migrating;
    expectFirst(await pay(url, await generateKey(url)));
  });

  test('is waited for by a start, which serves nothing before', async () => {
    await migrate(database.url, () => {}, await migrationsOf('before', (name) => name < '0008'));
    const release = await lockPayments();
    const port = await freePort();
    const { child, ended } = spawnProgram(SERVICE, { ...stores.environment, PORT: `${port}` });
    let output = '';
    child.stdout.on('data', (chunk) => {
      output += chunk;
    });
    onTestFinished(async () => {
      child.kill('SIGKILL');
      await ended;
    });
    const url = `http://127.0.0.1:${port}`;
    await until('the notice', DEADLINE_MS, () => /locks a table that the migration 0008_clients/.test(output));
    expect((await ask(`${url}/livez`)).status).toBe(200);
    for (const path of ['/readyz', '/api/server-generated/generate-key']) {
      expectError(await ask(`${url}${path}`), 503, /is starting/);
    }
    const columns = "SELECT FROM information_schema.columns WHERE table_name = 'payments' AND column_name = 'client'";
    expect(await runSql(database.url, columns)).toHaveLength(0);

    await release();
    await until('readiness', DEADLINE_MS, async () => (await ask(`${url}/readyz`)).status === 200);
    expectFirst(await pay(url, await generateKey(url)));
  });
});
