import { type Adoptable, type Adoption, adoptionRefusal, NOBODY } from '../../../payments/values/adoption.js';
import { CannotOpen } from '../../shared/deployment.js';
import { isRestored } from '../file/adoption.js';
import { readLastCommit } from '../file/last-commit.js';
import { changeUpToDate } from '../file/stopped-database.js';

const ADOPTION = `
  SELECT adopter, EXISTS (SELECT 1 FROM payments WHERE client IS NULL AND reference IS NOT NULL) AS hasOrders FROM deployment`;
/** The order is that of an index which has no payment without a client, so that such payments are not read. */
const ORDER_OF_CLIENT = `
  SELECT 1 FROM payments WHERE client IS NOT NULL AND reference IS NOT NULL ORDER BY client, transaction_id LIMIT 1`;
const ADOPTABLE = `
  SELECT adopter, EXISTS (SELECT 1 FROM payments WHERE client = ? AND reference IS NOT NULL) AS hasReferences FROM deployment`;
const ADOPT_PAYMENTS = 'UPDATE payments SET client = ? WHERE client IS NULL';
const ADOPT_KEYS = 'UPDATE idempotency_keys SET client = ? WHERE client IS NULL';
/** Its keys of references that have no payment are others from now on: with an earlier one an order would be charged twice. */
const FORGET_KEYS = 'DELETE FROM idempotency_keys WHERE client = ? AND reference IS NOT NULL';
/** A key of a create that the client has used itself stays its own. */
const ADOPT_CREATIONS = `
  UPDATE creation_keys SET client = ?1
  WHERE client = '' AND NOT EXISTS (
    SELECT 1 FROM creation_keys AS own
    WHERE own.client = ?1 AND own.endpoint = creation_keys.endpoint AND own.key = creation_keys.key)`;
const DECIDE = 'UPDATE deployment SET adopter = ?, is_backup = max(is_backup, ?)';
const COMMIT_NUMBER = 'UPDATE last_commit SET number = number + 1, key_records = key_records - ?';

export function readAdoption(database: { prepare(sql: string): { get(): unknown } }): Adoption {
  const { adopter, hasOrders } = database.prepare(ADOPTION).get() as { adopter: string | null; hasOrders: number };
  return {
    adopter: adopter ?? undefined,
    hasOrders: hasOrders === 1,
    hasOrdersOfClients: async () => database.prepare(ORDER_OF_CLIENT).get() !== undefined,
  };
}

/**
 * Gives a client the rows that were written without credentials, in one commit: a death before it leaves everything, and a second run finds it done.
 * NOBODY leaves them without a client. Returns how many payments the client was given; undefined if it had adopted before. Throws CannotOpen, with
 * nothing changed, if another client has adopted, if the client has references of its own, if a service runs on the folder, or if
 * an earlier version made the schema. `migrations`: a folder in place of this version's files.
 */
export function adoptUnowned(dataDir: string, client: string, migrations?: URL): number | undefined {
  return changeUpToDate({ dataDir, migrations }, (database, remembered) => {
    const row = database.prepare(ADOPTABLE).get(client) as { adopter: string | null; hasReferences: number };
    const found: Adoptable = { adopter: row.adopter, hasReferences: row.hasReferences === 1 };
    const refusal = adoptionRefusal(client, found);
    if (refusal === 'done') return undefined;
    if (refusal !== undefined) throw new CannotOpen(refusal);
    // The number of this commit may be that of a commit which a restored copy lacks: the next start must still notice it.
    const wasRestored = isRestored(database, readLastCommit(database), remembered);
    const run = (sql: string, ...values: (string | number)[]) => Number(database.prepare(sql).run(...values).changes);

    database.exec('BEGIN IMMEDIATE');
    let adopted = 0;
    let forgotten = 0;
    if (client !== NOBODY) {
      adopted = run(ADOPT_PAYMENTS, client);
      forgotten = run(FORGET_KEYS, client);
      run(ADOPT_KEYS, client);
      run(ADOPT_CREATIONS, client);
    }
    run(DECIDE, client, wasRestored ? 1 : 0);
    run(COMMIT_NUMBER, forgotten);
    database.exec('COMMIT');
    return adopted;
  });
}
