import { type Adoptable, type Adoption, adoptionRefusal, NOBODY } from '../../../payments/values/adoption.js';
import { CannotOpen } from '../../shared/deployment.js';
import type { Postgres, Statement } from '../connection/postgres.js';
import { changeStopped } from '../connection/stopped-database.js';

/** The decision, or the mark of the first order. */
export const ADOPTER: Statement = { name: 'adopter', text: 'SELECT adopter FROM idempay.deployment' };
const UNOWNED_ORDER: Statement = {
  name: 'unowned_order',
  text: 'SELECT 1 FROM idempay.payments WHERE client IS NULL AND reference IS NOT NULL ORDER BY transaction_id LIMIT 1',
};

/** The order is that of an index which has no payment without a client, so that such payments are not read. */
const ORDER_OF_CLIENT: Statement = {
  name: 'order_of_client',
  text: `
    SELECT 1 FROM idempay.payments WHERE client IS NOT NULL AND reference IS NOT NULL
    ORDER BY client, transaction_id LIMIT 1`,
};

/** The row of the deployment is locked first, so that the second of two adoptions sees the first one. */
const LOCK = 'SELECT adopter FROM idempay.deployment FOR UPDATE';
/** Waits for the claims under way. A claim that waits for this lock sees who adopted, because its statement begins after it. */
const LOCK_PAYMENTS = 'LOCK TABLE idempay.payments IN SHARE ROW EXCLUSIVE MODE';
const HAS_REFERENCES =
  'SELECT EXISTS (SELECT FROM idempay.payments WHERE client = $1 AND reference IS NOT NULL) AS "hasReferences"';
const ADOPT_PAYMENTS = 'UPDATE idempay.payments SET client = $1 WHERE client IS NULL';
/** A key of a create that the client has used itself stays its own. */
const ADOPT_CREATIONS = `
  UPDATE idempay.creation_keys AS nobodys SET client = $1
  WHERE client = '' AND NOT EXISTS (
    SELECT FROM idempay.creation_keys AS own
    WHERE own.client = $1 AND (own.endpoint, own.key) = (nobodys.endpoint, nobodys.key))`;
const DECIDE = 'UPDATE idempay.deployment SET adopter = $1';

/** Reads on one connection, without a service, the answer that a start finds. */
export async function readAdoption(database: Pick<Postgres, 'read'>): Promise<Adoption> {
  const [row] = await database.read<{ adopter: string | null }>(ADOPTER);
  return {
    adopter: row?.adopter ?? undefined,
    hasOrders: await hasUnownedOrders(database),
    hasOrdersOfClients: () => hasOrdersOfClients(database),
  };
}

/** True if there are orders without a client. */
export async function hasUnownedOrders(database: Pick<Postgres, 'read'>): Promise<boolean> {
  return (await database.read(UNOWNED_ORDER)).length > 0;
}

/** True if there are orders of clients. */
export async function hasOrdersOfClients(database: Pick<Postgres, 'read'>): Promise<boolean> {
  return (await database.read(ORDER_OF_CLIENT)).length > 0;
}

/**
 * Gives a client the rows that were written without credentials, in one commit: a death before it leaves everything, and a second run finds it done.
 * NOBODY leaves them without a client. Returns how many payments the client was given; undefined if it had adopted before. Throws CannotOpen, with
 * nothing changed, if another client has adopted, if the client has references of its own, or if a service runs on the database. No claim
 * of a service that was not seen counts before that service was started anew.
 */
export function adoptUnowned(databaseUrl: string, client: string): Promise<number | undefined> {
  return changeStopped(databaseUrl, 'idempay-adopt', async (database) => {
    const locked = await database.query<Pick<Adoptable, 'adopter'>>(LOCK);
    await database.query(LOCK_PAYMENTS);
    const found = await database.query<Pick<Adoptable, 'hasReferences'>>(HAS_REFERENCES, [client]);
    const refusal = adoptionRefusal(client, {
      adopter: locked.rows[0]?.adopter ?? null,
      hasReferences: found.rows[0]?.hasReferences ?? true,
    });
    if (refusal === 'done') return undefined;
    if (refusal !== undefined) throw new CannotOpen(refusal);
    let adopted = 0;
    if (client !== NOBODY) {
      adopted = (await database.query(ADOPT_PAYMENTS, [client])).rowCount ?? 0;
      await database.query(ADOPT_CREATIONS, [client]);
    }
    await database.query(DECIDE, [client]);
    return adopted;
  });
}
