import { CannotOpen } from '../shared/deployment.js';
import { ADOPT, IDENTIFY } from './connection/database-identity-statements.js';
import type { Postgres, Statement } from './connection/postgres.js';

/** The row of the transfer that made the database (docs/engineering/decisions/0081). */
export interface Transfer {
  readonly name: string;
  readonly state: 'COPYING' | 'COMPLETE' | 'STARTED' | 'GIVEN UP';
}

export const FIND_TRANSFER: Statement = { name: 'find_transfer', text: 'SELECT name, state FROM idempay.transfer' };

/** Asked before the schema is brought up to date, which may have none of our tables yet. */
const HAS_TRANSFER: Statement = {
  name: 'has_transfer',
  text: `SELECT FROM pg_class WHERE relnamespace = to_regnamespace('idempay') AND relname = 'transfer'`,
};

const START: Statement = {
  name: 'start_transferred',
  text: "UPDATE idempay.transfer SET state = 'STARTED' WHERE name = $1 AND state = 'COMPLETE' RETURNING name",
};

/**
 * The transfer that made this database; undefined if none did. Throws CannotOpen if a service may not start on it: it is not complete, or
 * the folder serves again.
 */
export async function findStartableTransfer(database: Postgres): Promise<Transfer | undefined> {
  const [transfer] = await database.read<Transfer & Record<string, unknown>>(FIND_TRANSFER);
  switch (transfer?.state) {
    case 'COPYING':
      throw new CannotOpen(
        'DATABASE_URL: idempay transfer has not copied everything into this database yet. Run it again: it goes on where it ended.',
      );
    case 'GIVEN UP':
      throw givenUpTarget();
    default:
      return transfer;
  }
}

/**
 * Before the schema is brought up to date, because a target that an earlier version began is completed or given up by that version. Throws
 * CannotOpen if a transfer made this database, and no service may start on it.
 */
export async function refuseUnstartable(database: Postgres): Promise<void> {
  if ((await database.read(HAS_TRANSFER)).length > 0) await findStartableTransfer(database);
}

export const givenUpTarget = () =>
  new CannotOpen(
    'DATABASE_URL: the transfer into this database was given up (idempay transfer --cancel), and its folder serves again. Drop the schema idempay, or name another database.',
  );

/**
 * The first start: from then on the transfer cannot be given up. Throws CannotOpen if it is. `wasStarted`: Redis knew of a start before
 * this was asked, so the database was restored to a state before its start, and lacks what was written since. Returns true then.
 */
export async function startTransferred(database: Postgres, wasStarted: boolean): Promise<boolean> {
  const transfer = await findStartableTransfer(database);
  if (transfer?.state !== 'COMPLETE') return false;
  if (wasStarted) {
    const [row] = await database.read<{ incarnation: string; generation: number }>(IDENTIFY);
    // This precedes the start, so that a death between the two leaves both to the next start.
    await database.writeHoweverLate(ADOPT, [row?.incarnation ?? null, row?.generation ?? 0]);
  }
  // Another process may have started it meanwhile.
  const started = await database.write(START, [transfer.name]);
  if (started.length === 0) await findStartableTransfer(database);
  return wasStarted;
}
