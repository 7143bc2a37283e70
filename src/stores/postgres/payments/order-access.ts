import { type AccessKind, accessRefusal, decisionIn, MARKS } from '../../../payments/values/adoption.js';
import { StoreUnavailable } from '../../../platform/faults.js';
import type { PostgresPart } from '../connection/part.js';
import type { Statement } from '../connection/postgres.js';
import { ADOPTER } from './adopt.js';
import { DATABASE_WORDS } from './processor-names.js';
import { createWrittenOnce } from './written-once.js';

/** Compare-and-set: an update that waits for another one is judged by what that one wrote. */
const MARK: Statement = {
  name: 'mark_order_access',
  text: 'UPDATE idempay.deployment SET adopter = $1::text WHERE adopter IS NULL RETURNING adopter',
};

export interface OrderAccess {
  /** The adopter with which orders are claimed. Undefined in adapters without a service: they claim if nothing is written down. */
  readonly adopter: string | undefined;
  /** Resolves when orders may be claimed; undefined when this process knows that already. */
  mark(): Promise<void> | undefined;
  /** After a claim of an order that was refused: whether the database had lost the mark, with a failover or a restore, and has it again. */
  markAgain(): Promise<boolean>;
}

/**
 * Writes down, once in each process before its first order, whether orders are paid with credentials in this database. A claim of an order
 * counts only while this stands in the database, so that of two processes of which one has no AUTH one order is never charged twice. A
 * process that dies after that and before its claim has decided it for a database without orders. `adopter`: as the process found it at its
 * start. `onRefused` is called with a sentence if a process with the other access was first.
 */
export function createOrderAccess(
  database: PostgresPart,
  access: AccessKind | undefined,
  adopter: string | undefined,
  onRefused: (sentence: string) => void,
): OrderAccess {
  const decision = decisionIn(adopter);
  // Each claim compares a decision that was made before the start, so no mark is needed.
  if (access === undefined || decision !== undefined) {
    return { adopter: decision, mark: () => undefined, markAgain: async () => false };
  }
  const own = MARKS[access];

  async function isThere(): Promise<boolean> {
    const [row] = await database.read<{ adopter: string | null }>(ADOPTER);
    const found = row?.adopter ?? undefined;
    // After a decision the look of each second tells the process to be started anew.
    if (found === own || decisionIn(found) !== undefined) return true;
    if (found === undefined) return false;
    const orders = { adopter: found, hasOrders: true, hasOrdersOfClients: async () => true };
    const refusal = (await accessRefusal(access as AccessKind, orders, DATABASE_WORDS.place)) as string;
    onRefused(refusal);
    throw new StoreUnavailable('unchanged', refusal);
  }

  const { write, writeAgain } = createWrittenOnce('the mark of AUTH', isThere, () => database.write(MARK, [own]));
  return { adopter: own, mark: write, markAgain: writeAgain };
}
