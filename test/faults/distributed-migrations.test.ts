import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { expectFirst } from '../../testkit/client/payment-answers.js';
import { givenTransaction } from '../../testkit/client/transactions.js';
import { inParallel } from '../../testkit/concurrency.js';
import {
  type DistributedStores,
  openDistributedStores,
  openStoppableStores,
} from '../../testkit/deployments/distributed-stores.js';
import { runToExit } from '../../testkit/processes/service.js';
import { startStandby } from '../../testkit/servers/standby.js';
import { pause, until } from '../../testkit/time/until.js';

const PROCESSES = 5;
/** As in `migrate.ts`. */
const MIGRATION_LOCK = 4_242_017_001;
const ASKING_FOR_A_TURN =
  "SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'SELECT pg_try_advisory_lock%'";
const STARTING_LIMIT_MS = 20_000;
/** A start waits two seconds before it says that it waits. */
const NOTICE_AFTER_MS = 5_000;
const REPLICATION_DEADLINE_MS = 20_000;

/** All that the schema is made of, as text to compare. */
const SCHEMA = `
  SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable AS line
  FROM information_schema.columns WHERE table_schema = 'idempay'
  UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'idempay'
  UNION ALL SELECT conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'idempay'::regnamespace
  UNION ALL SELECT name || ' ' || applied_at FROM idempay.migrations
  ORDER BY line`;

describe('the schema', () => {
  let stores: DistributedStores;

  beforeEach(async () => {
    stores = await openDistributedStores();
  });
  afterEach(() => stores.close());

  it(`is made once by ${PROCESSES} processes that start at once on an empty database, and all of them serve`, async () => {
    const services = await Promise.all(Array.from({ length: PROCESSES }, () => stores.start()));

    for (const { url } of services) expectFirst(await pay(url, await generateKey(url)));
    const applied = await stores.sql<{ name: string }>('SELECT name FROM idempay.migrations ORDER BY name');
    expect(applied.length).toBeGreaterThan(0);
    expect(new Set(applied.map(({ name }) => name)).size).toBe(applied.length);
    expect(await stores.sql('SELECT only_row FROM idempay.transaction_list')).toEqual([{ only_row: true }]);
  });

  it('is migrated by one process at a time: another start waits for its turn, and says so', async () => {
    const migrating = new pg.Client({ connectionString: stores.databaseUrl });
    await migrating.connect();
    await migrating.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK]);
    const starting = stores.start();
    await until('a start to ask for its turn', STARTING_LIMIT_MS, async () => {
      return (await stores.sql(ASKING_FOR_A_TURN)).length > 0;
    });
    await pause(NOTICE_AFTER_MS);
    expect(await stores.sql("SELECT FROM pg_namespace WHERE nspname = 'idempay'")).toEqual([]);
    await migrating.end();
    const service = await starting;
    expect(service.logs.map(({ msg }) => msg)).toContain(
      'Another process migrates the database; the start waits for its turn.',
    );
    expectFirst(await pay(service.url, await generateKey(service.url)));
  }, 60_000);

  it('and the rows are left alone by a second start', async () => {
    const first = await stores.start();
    const key = await generateKey(first.url);
    expectFirst(await pay(first.url, key));
    await givenTransaction(first.url);
    await first.stop();
    const everything = async () => ({
      schema: await stores.sql(SCHEMA),
      payments: await stores.sql('SELECT payment::text FROM idempay.payments payment'),
      transactions: await stores.sql('SELECT transaction::text FROM idempay.transactions transaction'),
      list: await stores.sql('SELECT * FROM idempay.transaction_list'),
    });
    const before = await everything();

    await inParallel(2, 2, async () => (await stores.start()).stop());
    expect(await everything()).toEqual(before);
  });

  it('of a newer version is refused with a sentence', async () => {
    await (await stores.start()).stop();
    await stores.sql("INSERT INTO idempay.migrations (name) VALUES ('9999_from_the_future.sql')");

    const exit = await runToExit(stores.environment);
    expect(exit.code).toBe(1);
    expect(exit.output).toContain('migrated by a newer version of Idempay');
  });
});

describe('a PostgreSQL standby', () => {
  it('is refused at start with a sentence, and used as soon as it is the primary', async () => {
    const stores = await openStoppableStores();
    const standby = await startStandby(stores.postgres);
    try {
      // It follows: what the primary acknowledged arrives there.
      const primary = await stores.start();
      const { transactionId } = await givenTransaction(primary.url);
      await until('the standby to have the row', REPLICATION_DEADLINE_MS, () =>
        standby.has('idempay', `SELECT 1 FROM idempay.transactions WHERE id = ${transactionId}`),
      );
      const environment = { DATABASE_URL: standby.url('idempay') };

      const refused = await runToExit({ ...stores.environment, ...environment });
      expect(refused.code).toBe(1);
      expect(refused.output).toContain('this PostgreSQL server is a standby; connect to the primary');
      expect(refused.output).not.toMatch(/^\s+at /m);

      await primary.stop();
      await standby.promote();
      const { url } = await stores.start(environment);
      expectFirst(await pay(url, await generateKey(url)));
      expect((await givenTransaction(url)).transactionId).toBeGreaterThan(transactionId);
    } finally {
      await standby.close();
      await stores.close();
    }
  }, 90_000);
});
