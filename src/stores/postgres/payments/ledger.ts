import { type Ledger, MOST_COUNTED } from '../../../payments/ports/ledger.js';
import type { AccessKind } from '../../../payments/values/adoption.js';
import { isVisibleTo } from '../../../payments/values/payment.js';
import { payerIn } from '../../shared/payment-rows.js';
import { NOT_MEASURED, type StoreMeasures } from '../../shared/store-measures.js';
import { Batcher, LANES } from '../connection/batcher.js';
import type { DatabaseClock } from '../connection/database-clock.js';
import type { ConfirmDurable } from '../connection/durability.js';
import type { PostgresPart } from '../connection/part.js';
import { createClaimEnds } from './claim-ends.js';
import { createClaims } from './claims.js';
import { createFindRow, findResultOf } from './find-row.js';
import * as statements from './ledger-statements.js';
import { createOrderAccess } from './order-access.js';
import type { PaymentRow } from './payment-row.js';
import { createProcessorNames } from './processor-names.js';
import { createNoteElapsed, createPaymentHorizon } from './retention.js';

interface LedgerOptions {
  readonly measures?: StoreMeasures | undefined;
  readonly onRefused?: (sentence: string) => void;
  /** The setting AUTH of the service, and what the row of the deployment said of it at the start. */
  readonly access?: AccessKind | undefined;
  readonly adopter?: string | undefined;
}

/**
 * The payment rows in PostgreSQL. Every write is one statement that commits by itself; leases are the database's. `onRefused` is
 * called with a sentence when this process may claim nothing here, because payments of the other kind are in the database, or
 * orders that were paid with the other setting of AUTH.
 */
export function createPostgresLedger(
  database: PostgresPart,
  clock: DatabaseClock,
  confirmDurable: ConfirmDurable,
  { measures = NOT_MEASURED, onRefused = () => {}, access, adopter }: LedgerOptions = {},
): Ledger {
  const queue = (name: string) => measures.queue('postgresql', name);
  /** Each call is answered by a statement that was sent after the call began (rule P17). */
  const finds = new Batcher<string, PaymentRow | undefined>(findAll, clock.clock, LANES, queue('finds'));
  const horizon = createPaymentHorizon(database);
  const processorNames = createProcessorNames(database, onRefused);
  const orderAccess = createOrderAccess(database, access, adopter, onRefused);

  async function findAll(keys: readonly string[]): Promise<(PaymentRow | undefined)[]> {
    // A thousand repeats of one key ask for one row.
    const rows = await database.read<PaymentRow>(statements.FIND, [[...new Set(keys)]]);
    const byKey = new Map(rows.map((row) => [row.key, row]));
    return keys.map((key) => byKey.get(key));
  }

  const findRow = createFindRow((key) => finds.add(key), database, confirmDurable);

  return {
    ...createClaims(
      database,
      clock,
      { findRow, mayBeRemoved: horizon.mayBeRemoved, processorNames, orderAccess },
      queue('claims'),
    ),
    ...createClaimEnds(database, clock, findRow, queue),

    async find(key, client) {
      const row = await findRow(key);
      if (!row || row.refund_of !== null || !isVisibleTo(client, row.client)) return { state: 'absent' };
      return findResultOf(row);
    },

    async endedUnclaimed(key, lifeMs, client) {
      return (await database.read(statements.ENDED_UNCLAIMED, [key, lifeMs, client ?? null])).length > 0;
    },

    async mayBeLost(key) {
      const values = [key];
      const [told] = await database.read<{ mayBeLost: boolean; isKnown: boolean }>(statements.MAY_BE_LOST, values);
      return !told?.isKnown || told.mayBeLost;
    },

    payerOf: async (key) => payerIn((await finds.add(key))?.source),

    async countAbandoned(...ages) {
      const [counted] = await database.read<{ abandoned: number }>(statements.COUNT_ABANDONED, [...ages, MOST_COUNTED]);
      return counted?.abandoned ?? 0;
    },

    async backlog() {
      const [row] = await database.read<{ payments: number; oldest_ms: number }>(statements.BACKLOG, [MOST_COUNTED]);
      return { payments: row?.payments ?? 0, oldestMs: Math.max(0, row?.oldest_ms ?? 0) };
    },

    async pendingBacklog() {
      const [row] = await database.read<{ payments: number; oldest_ms: number; past_until: number }>(
        statements.PENDING_BACKLOG,
        [MOST_COUNTED],
      );
      const { payments = 0, oldest_ms: oldestMs = 0, past_until: pastUntil = 0 } = row ?? {};
      return { payments, oldestMs: Math.max(0, oldestMs), pastUntil };
    },

    noteElapsed: createNoteElapsed(database),

    removeSettled: horizon.removeSettled,
  };
}
