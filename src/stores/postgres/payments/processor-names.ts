import type { ClaimedProcessors, StoreWords } from '../../../payments/values/processor-names.js';
import { refusalOf, SIMULATED } from '../../../payments/values/processor-names.js';
import { StoreUnavailable } from '../../../platform/faults.js';
import type { PostgresPart } from '../connection/part.js';
import type { Statement } from '../connection/postgres.js';
import { createWrittenOnce, type WrittenOnce } from './written-once.js';

export const DATABASE_WORDS: StoreWords = {
  place: 'the database of DATABASE_URL',
  another: 'DATABASE_URL to another database',
};

export const PROCESSOR_NAMES: Statement = {
  name: 'processor_names',
  text: 'SELECT processors, processors_before_loss FROM idempay.deployment',
};

/** Compare-and-set: an update that waits for another one is judged by what that one wrote. */
const REGISTER_PROCESSOR: Statement = {
  name: 'register_processor',
  text: `
    UPDATE idempay.deployment SET processors = processors || $1::text
    WHERE NOT processors @> ARRAY[$1::text] AND CASE
      WHEN $1::text = '${SIMULATED}' THEN processors = '{}'
      ELSE processors <> ARRAY['${SIMULATED}'] END
    RETURNING processors`,
};

export interface ProcessorNames {
  /** Resolves when payments may be claimed under this name; undefined when this process knows that already. */
  register(processor: string): Promise<void> | undefined;
  /**
   * After a claim that was refused: whether the database had lost the name, with a failover or because simulated payments were
   * discarded, and has it again.
   */
  registerAgain(processor: string): Promise<boolean>;
}

/**
 * Writes down, once in each process before its first claim, under which processor's name payments are claimed. A claim counts only while
 * the name stands in the database. A process that dies after that and before its claim has set the kind of a store
 * without payments; `idempay simulated discard` sets a simulated one back.
 */
export function createProcessorNames(database: PostgresPart, onRefused: (sentence: string) => void): ProcessorNames {
  const names = new Map<string, WrittenOnce>();

  async function isListed(processor: string): Promise<boolean> {
    const { used } = await readProcessorNames(database);
    if (used.includes(processor)) return true;
    const refusal = refusalOf(processor, used, DATABASE_WORDS);
    if (refusal === undefined) return false;
    onRefused(refusal);
    throw new StoreUnavailable('unchanged', refusal);
  }

  function nameOf(processor: string): WrittenOnce {
    const known = names.get(processor);
    if (known) return known;
    const name = createWrittenOnce(
      "the processor's name",
      () => isListed(processor),
      () => database.write(REGISTER_PROCESSOR, [processor]),
    );
    names.set(processor, name);
    return name;
  }

  return {
    register: (processor) => nameOf(processor).write(),
    registerAgain: (processor) => nameOf(processor).writeAgain(),
  };
}

export async function readProcessorNames(database: Pick<PostgresPart, 'read'>): Promise<ClaimedProcessors> {
  const [row] = await database.read<{ processors: string[]; processors_before_loss: string[] | null }>(PROCESSOR_NAMES);
  return { used: row?.processors ?? [], beforeLoss: row?.processors_before_loss ?? undefined };
}
