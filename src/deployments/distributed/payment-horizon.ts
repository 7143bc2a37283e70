import type { Ledger } from '../../payments/ledger.js';
import * as statements from './payment-horizon-statements.js';
import type { Postgres } from './postgres.js';
import { STATEMENT_TIMEOUT_MS } from './time-limits.js';

/** A claim that missed a raise of the horizon has surely ended this long after the raise was visible. */
const CLAIMS_END_MS = STATEMENT_TIMEOUT_MS + 2_000;
/** Rows looked at for each that may be removed. */
const LOOKED_AT = 10;

interface PaymentHorizon {
  readonly removeSettled: Ledger['removeSettled'];
  /** Whether the key is so old that its row, where it has none, may have been removed. */
  mayBeRemoved(key: string): Promise<boolean>;
}

/** Removes old payments, and sees to it that none of their keys is ever claimed again. Any number may do so at once. */
export function createPaymentHorizon(database: Postgres): PaymentHorizon {
  return {
    async removeSettled(retentionMs, limit) {
      await database.write(statements.ADVANCE_HORIZON, [retentionMs, CLAIMS_END_MS]);
      const removed = await database.write(statements.REMOVE_SETTLED, [retentionMs, limit, LOOKED_AT * limit]);
      return removed.length;
    },

    async mayBeRemoved(key) {
      const [row] = await database.read<{ mayBeRemoved: boolean }>(statements.MAY_BE_REMOVED, [key]);
      return row?.mayBeRemoved ?? false;
    },
  };
}
