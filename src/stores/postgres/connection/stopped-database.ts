import { Client } from 'pg';
import { CannotOpen } from '../../shared/deployment.js';
import { refuseForeign } from '../../shared/found-schema.js';
import { OTHER_SCHEMA, readSchema } from '../migrate.js';
import { FIND_TRANSFER, type Transfer } from '../transfer-state.js';
import { primaryUrl } from './address.js';
import { LIMITS_OF_COMMAND } from './session.js';

const CONNECT_TIMEOUT_MS = 5_000;
/** Sessions of services; a pooler may hide some. */
const SERVICES = `
  SELECT count(*)::integer AS sessions FROM pg_stat_activity
  WHERE datname = current_database() AND application_name = 'idempay'`;

/**
 * Changes a database that no service runs on, in one transaction. Throws CannotOpen, with nothing changed, if one does, if a transfer made
 * it that no service has started on, or if the schema is not this version's. A service that was not seen, behind a pooler, or that starts meanwhile, must
 * find the database such that it does no harm. `name`: of the session.
 */
export async function changeStopped<Result>(
  databaseUrl: string,
  name: string,
  change: (client: Client) => Promise<Result>,
): Promise<Result> {
  const client = new Client({
    connectionString: await primaryUrl(databaseUrl),
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    application_name: name,
  });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query('BEGIN');
    await client.query(LIMITS_OF_COMMAND);
    const { rows } = await client.query<{ sessions: number }>(SERVICES);
    if (rows[0]?.sessions !== 0)
      throw new CannotOpen('Nothing was changed: a service runs on this database. Stop it first.');
    const found = await readSchema(client);
    refuseForeign(found, ...OTHER_SCHEMA);
    if (found.pending.length > 0)
      throw new CannotOpen('Nothing was changed: start this version of the service on the database first.');
    const { rows: transfers } = await client.query<Transfer>(FIND_TRANSFER);
    if (transfers.some(({ state }) => state !== 'STARTED')) {
      throw new CannotOpen(
        'Nothing was changed: idempay transfer has made this database, and no service has started on it. Start one first, or change the folder before the transfer.',
      );
    }
    const result = await change(client);
    await client.query('COMMIT');
    return result;
  } finally {
    // Rolls back what is not committed.
    await client.end().catch(() => {});
  }
}
