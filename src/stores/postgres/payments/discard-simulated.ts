import { MARKS } from '../../../payments/values/adoption.js';
import { SIMULATED } from '../../../payments/values/processor-names.js';
import { refuseRealPayments } from '../../shared/checks.js';
import { beginIncarnation } from '../connection/database-identity-statements.js';
import { changeStopped } from '../connection/stopped-database.js';
import { PROCESSOR_NAMES } from './processor-names.js';

/**
 * The lock waits for the claims under way, and each claim that waits for it sees what is written here: that its processor is not
 * registered. With another id, nothing in Redis counts any more, although it has records of the removed payments until they expire;
 * and keys of references are others. Readers of the feed begin again. One commit: a death before it leaves everything, and a second run finds
 * nothing to remove.
 */
const DISCARD = `
  LOCK TABLE idempay.payments IN SHARE ROW EXCLUSIVE MODE;
  DELETE FROM idempay.payments;
  ${beginIncarnation('true')};
  UPDATE idempay.deployment SET processors = '{}',
    adopter = CASE WHEN adopter NOT IN ('${MARKS.none}', '${MARKS.required}') THEN adopter END, id = right(replace(gen_random_uuid()::text, '-', ''), 16)`;

/**
 * Removes the payments of a database in which all are simulated; transactions stay. Returns false if there is nothing to remove. Throws
 * CannotOpen, with nothing changed, if a service runs on it or a payment was made at a processor. A service that was not
 * seen, behind a pooler, or that starts meanwhile, leaves the database as the next claim finds it: none of its claims counts before its
 * processor is registered again.
 */
export async function discardSimulatedPayments(databaseUrl: string): Promise<boolean> {
  return changeStopped(databaseUrl, 'idempay-discard', async (client) => {
    // Locked until the end, so that no process registers another processor meanwhile.
    const found = await client.query<{ processors: string[] }>(`${PROCESSOR_NAMES.text} FOR UPDATE`);
    const used = found.rows[0]?.processors ?? [];
    refuseRealPayments(used);
    if (!used.includes(SIMULATED)) return false;
    await client.query(DISCARD);
    return true;
  });
}
