import { isRefused, SIMULATED, type StoreWords } from '../../payments/values/processor-names.js';
import type { Database } from './sqlite.js';

export const FOLDER_WORDS: StoreWords = { place: 'DATA_DIR', another: 'DATA_DIR to another folder' };

export const PROCESSOR_NAMES = 'SELECT processors FROM deployment';

const REGISTER_PROCESSOR = `
  UPDATE deployment SET processors = json_insert(processors, '$[#]', ?1)
  WHERE NOT EXISTS (SELECT 1 FROM json_each(processors) WHERE value = ?1)
    AND CASE WHEN ?1 = '${SIMULATED}' THEN processors = '[]' ELSE processors <> '["${SIMULATED}"]' END`;

export const namesIn = ({ processors }: { processors: string }) => JSON.parse(processors) as readonly string[];

export function readProcessorNames(database: Database): readonly string[] {
  return namesIn(database.prepare(PROCESSOR_NAMES).get() as { processors: string });
}

/** Runs in the writer thread, in the transaction of its batch. */
export function createProcessorNameWrites(database: Database) {
  const register = database.prepare(REGISTER_PROCESSOR);

  return {
    /** Writes down under which name payments are claimed from now on. The names of the others, where they refuse this one. */
    registerProcessor({ processor }: { processor: string }): readonly string[] | null {
      if (register.run(processor).changes > 0) return null;
      const used = readProcessorNames(database);
      return !used.includes(processor) && isRefused(processor, used) ? used : null;
    },
  };
}
