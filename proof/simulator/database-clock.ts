import type { Clock } from '#idempay/clock.js';
import { DatabaseClock } from '#idempay/deployments/distributed/postgres/database-clock.js';
import type { Postgres } from '#idempay/deployments/distributed/postgres/postgres.js';
import { ROUTINE, type Server } from './network.js';
import type { Actor } from './simulation.js';

/** As `DatabaseClock` does it by a timer of its own. */
const SYNCHRONIZE_EVERY_MS = 30_000;

/** The real translation of a deadline of ours into the database's time: learned from replies, and old after a jump. */
export async function startDatabaseClock(
  line: Server,
  now: () => number,
  instance: Actor,
  clock: Clock,
): Promise<DatabaseClock> {
  const database = {
    read: async () => [{ now: await line.read(instance, ROUTINE, instance.name, now) }],
  } as unknown as Postgres;
  const databaseClock = new DatabaseClock(database, clock);
  const synchronizeLater = () => {
    clock.after(SYNCHRONIZE_EVERY_MS, () => {
      databaseClock.synchronize().catch(() => {});
      synchronizeLater();
    });
  };
  await databaseClock.synchronize();
  synchronizeLater();
  return databaseClock;
}
