import { onTestFinished } from 'vitest';
import { type Behaviour, startReferenceProcessor } from '../processes/reference-processor.js';
import { startStandby } from '../servers/standby.js';
import { startTcpProxy } from '../servers/tcp-proxy.js';
import { until } from '../time/until.js';
import { openStoppableStores } from './distributed-stores.js';

const DEADLINE_MS = 60_000;
const LEASE_SECONDS = 2;
const PROCESSOR_TIMEOUT_MS = 1_900;
/** An attempt that was under way at the failover has ended then, whatever became of it. */
export const ATTEMPT_ENDS_MS = LEASE_SECONDS * 1_000 + PROCESSOR_TIMEOUT_MS;

/** Two services on a PostgreSQL whose standby follows it asynchronously, and a processor that logs every charge, until the test ends. */
export async function openPostgresFailover(behaviour: Partial<Behaviour> & Pick<Behaviour, 'deduplicate'>) {
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
    hasStandby: (query: string) => standby.has('idempay', query),
    /** For new connections too: a standby that connects again would lose nothing. */
    cutOffStandby: () => replication.cutOff(),
    stopPrimary: () => stores.postgres.stopImmediately(),
    async promoteStandby(): Promise<void> {
      await standby.promote();
      stores.wires.postgres.leadTo(standby.port);
    },
  };
}
