import type pg from 'pg';
import { onTestFinished } from 'vitest';
import { type Behaviour, startReferenceProcessor } from '../processes/reference-processor.js';
import type { Environment } from '../processes/service.js';
import { runSql } from '../servers/postgres.js';
import { startStandby } from '../servers/standby.js';
import { startTcpProxy } from '../servers/tcp-proxy.js';
import { until } from '../time/until.js';
import { openStoppableStores } from './distributed-stores.js';

const DEADLINE_MS = 60_000;
const LEASE_SECONDS = 3;
const PROCESSOR_TIMEOUT_MS = 1_900;
/** An attempt that was under way at the failover has ended then, whatever became of it. */
export const ATTEMPT_ENDS_MS = LEASE_SECONDS * 1_000 + PROCESSOR_TIMEOUT_MS;

/** Two services on a PostgreSQL whose standby follows it asynchronously, and a processor that logs every charge, until the test ends. */
export async function openPostgresFailover(
  behaviour: Partial<Behaviour> & Pick<Behaviour, 'deduplicate'>,
  settings: Environment = {},
) {
  const stores = await openStoppableStores();
  const processor = await startReferenceProcessor({ behaviour });
  const replication = await startTcpProxy(stores.postgres.port);
  const standby = await startStandby(stores.postgres, replication.port);
  onTestFinished(async () => {
    await stores.close();
    await Promise.all([standby.close(), processor.close(), replication.close()]);
  });
  const start = () =>
    stores.start({
      DATABASE_URL: stores.wires.environment.DATABASE_URL,
      LOCK_TTL_SECONDS: `${LEASE_SECONDS}`,
      PROCESSOR_URL: processor.url,
      PROCESSOR_TIMEOUT_MS: `${PROCESSOR_TIMEOUT_MS}`,
      PROCESSOR_DEDUP_SECONDS: behaviour.deduplicate ? '3600' : '0',
      ...settings,
    });
  const services = await Promise.all([start(), start()]);
  await until('the standby to have the schema', DEADLINE_MS, () =>
    standby.has('idempay', 'SELECT FROM idempay.deployment WHERE timeline IS NOT NULL'),
  );
  return {
    services,
    /** One service more. */
    start,
    charges: () => processor.charges(),
    refundsOf: (key: string) => processor.refundsOf(key),
    behave: (patch: Partial<Behaviour>) => processor.behave(patch),
    sqlOnStandby: <Row extends pg.QueryResultRow>(text: string, values?: readonly unknown[]) =>
      runSql<Row>(standby.url('idempay'), text, values),
    hasStandby: (query: string) => standby.has('idempay', query),
    /** From now on nothing is acknowledged that the standby lacks. */
    async waitForStandby(): Promise<void> {
      await stores.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
      await stores.sql('SELECT pg_reload_conf()');
      await until('the standby to be synchronous', DEADLINE_MS, async () => {
        const synchronous = "SELECT FROM pg_stat_replication WHERE sync_state = 'sync'";
        return (await stores.sql(synchronous)).length > 0;
      });
      // The process that makes checkpoints reads its settings before, and then tells the others to wait.
      await stores.sql('CHECKPOINT');
    },
    /** For new connections too: a standby that connects again would lose nothing. */
    cutOffStandby: () => replication.cutOff(),
    stopPrimary: () => stores.postgres.stopImmediately(),
    async promoteStandby(): Promise<void> {
      await standby.promote();
      stores.wires.postgres.leadTo(standby.port);
    },
  };
}
