import type { Clock } from '../../../clock.js';
import { NOT_MEASURED, type StoreMeasures } from '../../store-measures.js';
import { Batcher } from './batcher.js';
import type { Postgres, Statement } from './postgres.js';

/**
 * Changes nothing, but its commit waits for the synchronous standby, and so for every commit before it. What was read
 * rather than written may still lack its standby: the wait of the commit that wrote it may have been cancelled.
 */
const CONFIRM: Statement = {
  name: 'confirm_durable',
  text: "SELECT pg_logical_emit_message(true, 'idempay', '')",
};

/** Resolves when everything that was read before is as durable as what we write ourselves. */
export type ConfirmDurable = () => Promise<void>;

/** One confirmation serves all that asked before it was sent. */
export function createConfirmDurable(
  database: Postgres,
  clock: Clock,
  measures: StoreMeasures = NOT_MEASURED,
): ConfirmDurable {
  const confirmations = new Batcher<'confirm', undefined>(
    async (asked) => {
      await database.write(CONFIRM);
      return asked.map(() => undefined);
    },
    clock,
    1,
    measures.queue('postgresql', 'confirmations'),
  );
  return () => confirmations.add('confirm');
}
