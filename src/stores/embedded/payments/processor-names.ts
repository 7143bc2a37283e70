import {
  type ClaimedProcessors,
  isRefused,
  SIMULATED,
  type StoreWords,
} from '../../../payments/values/processor-names.js';
import type { Database } from '../file/sqlite.js';

export const FOLDER_WORDS: StoreWords = { place: 'DATA_DIR', another: 'DATA_DIR to another folder' };

export const PROCESSOR_NAMES = 'SELECT processors, processors_before_loss FROM deployment';

const REGISTER_PROCESSOR = `
  UPDATE deployment SET processors = json_insert(processors, '$[#]', ?1)
  WHERE NOT EXISTS (SELECT 1 FROM json_each(processors) WHERE value = ?1)
    AND CASE WHEN ?1 = '${SIMULATED}' THEN processors = '[]' ELSE processors <> '["${SIMULATED}"]' END`;

export function readProcessorNames(database: { prepare(sql: string): { get(): unknown } }): ClaimedProcessors {
  const row = database.prepare(PROCESSOR_NAMES).get() as { processors: string; processors_before_loss: string | null };
  const { processors, processors_before_loss: beforeLoss } = row;
  return { used: JSON.parse(processors), beforeLoss: beforeLoss === null ? undefined : JSON.parse(beforeLoss) };
}

/** Runs in the writer thread, in the transaction of its batch. */
export function createProcessorNameWrites(database: Database) {
  const register = database.prepare(REGISTER_PROCESSOR);

  return {
    /** Writes down under which name payments are claimed from now on. The names of the others, if they refuse this one. */
    registerProcessor({ processor }: { processor: string }): readonly string[] | null {
      if (register.run(processor).changes > 0) return null;
      const { used } = readProcessorNames(database);
      return !used.includes(processor) && isRefused(processor, used) ? used : null;
    },
  };
}
