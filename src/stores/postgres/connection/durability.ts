import type { Clock } from '../../../platform/clock.js';
import { NOT_MEASURED, type StoreMeasures } from '../../shared/store-measures.js';
import { Batcher } from './batcher.js';
import type { Postgres, Statement } from './postgres.js';

/**
 * Changes nothing, but its commit waits until the synchronous standby has it and every commit before it. A row that was only
 * read may not be on the standby yet, because the wait of the commit that wrote it may have been cancelled.
 */
export const CONFIRM: Statement = {
  name: 'confirm_durable',
  text: "SELECT pg_logical_emit_message(true, 'idempay', '')",
};

/** Resolves when everything that was read before is as durable as what we write ourselves. */
export type ConfirmDurable = () => Promise<void>;

/** Calls that arrive before a confirmation is sent share it. */
export function createConfirmDurable(
  database: Postgres,
  clock: Clock,
  measures: StoreMeasures = NOT_MEASURED,
): ConfirmDurable {
  const confirmations = new Batcher<'confirm', undefined>(
    async (asked) => {
      await database.writeHoweverLate(CONFIRM);
      return asked.map(() => undefined);
    },
    clock,
    1,
    measures.queue('postgresql', 'confirmations'),
  );
  return () => confirmations.add('confirm');
}
