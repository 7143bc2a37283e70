import type { LastCommit } from '../file/last-commit.js';
import { type Database, faultOf } from '../file/sqlite.js';
import type { WriteBatch, WriteFault, WriteName, WriteOperations, WriteResults } from './write-operations.js';

/** Below what the main thread waits for a batch (`HANDED_OVER_LIMIT_MS`). */
const ONE_BY_ONE_LIMIT_MS = 3_000;

const WRITE_NOTHING: ReadonlySet<WriteName> = new Set(['ping', 'countKeys']);

/** Group commit, on the only connection that writes: batches that wait together are one commit. Returns the results of each. */
export function createBatchCommits(
  database: Database,
  operations: WriteOperations,
  lastCommit: LastCommit,
  /** Throws if the database may be another process's by now. */
  assertOurs: () => void = () => {},
): (batches: readonly WriteBatch[]) => readonly WriteResults[] {
  /** Duration of each commit of the batches under way, milliseconds. */
  let commitsMs: number[] = [];

  return (batches) => {
    commitsMs = [];
    const { values, faults } = commitTogether({
      names: batches.flatMap(({ names }) => names),
      inputs: batches.flatMap(({ inputs }) => inputs),
    });
    let end = 0;
    return batches.map(({ names }, index) => {
      const begin = end;
      end += names.length;
      return {
        values: values.slice(begin, end),
        faults: faults?.slice(begin, end),
        commitsMs: index === 0 ? commitsMs : [],
        ...(index === 0 && { clockMs: lastCommit.clockMs }),
      };
    });
  };

  /** All operations in one commit. If one of them is refused the batch has rolled back and is run one by one. */
  function commitTogether({ names, inputs }: WriteBatch): WriteResults {
    try {
      return {
        values: inTransaction(() => names.map((name, index) => execute(name, inputs[index]))),
      };
    } catch (error) {
      const fault = faultFrom(error);
      if (fault.fault === 'refused' && names.length > 1) return commitOneByOne({ names, inputs });
      if (fault.fault === 'broken') return { values: [], faults: names.map(() => fault) };
      // An operation that writes nothing needs no room and no lock: the health check succeeds on a full disk.
      const writesNothing = names.map((name) => WRITE_NOTHING.has(name));
      return {
        values: names.map((name, index) => (writesNothing[index] ? execute(name) : undefined)),
        faults: writesNothing.map((without) => (without ? undefined : fault)),
      };
    }
  }

  /**
   * Ends at the first fault that is not the operation's own (a full disk, a locked file), and after `ONE_BY_ONE_LIMIT_MS`:
   * each commit waits for the disk, and so do the operations after the batch.
   */
  function commitOneByOne({ names, inputs }: WriteBatch): WriteResults {
    const endsAt = performance.now() + ONE_BY_ONE_LIMIT_MS;
    let stopped: WriteFault | undefined;
    const alone = names.map((name, index) => {
      if (performance.now() >= endsAt) stopped ??= { fault: 'busy', message: 'a refused batch took too long' };
      if (stopped) return { value: undefined, fault: stopped };
      const { values, faults } = commitTogether({ names: [name], inputs: [inputs[index]] });
      const fault = faults?.[0];
      if (fault && fault.fault !== 'refused') stopped = fault;
      return { value: values[0], fault };
    });
    return { values: alone.map(({ value }) => value), faults: alone.map(({ fault }) => fault) };
  }

  function inTransaction<T>(work: () => T): T {
    database.exec('BEGIN IMMEDIATE');
    try {
      const result = work();
      lastCommit.write();
      assertOurs();
      const endedAt = performance.now();
      database.exec('COMMIT');
      commitsMs.push(performance.now() - endedAt);
      lastCommit.committed();
      return result;
    } catch (error) {
      rollBack(database);
      lastCommit.rolledBack();
      throw error;
    }
  }

  function execute(name: WriteName, input?: unknown): unknown {
    const operation = operations[name] as (input: unknown) => unknown;
    return operation(input);
  }
}

/** After some errors SQLite has rolled back by itself. One that cannot be rolled back is caught by the next BEGIN. */
function rollBack(database: Database): void {
  try {
    if (database.isTransaction) database.exec('ROLLBACK');
  } catch {
    // The error that led here is the one to report.
  }
}

function faultFrom(error: unknown): WriteFault {
  return { fault: faultOf(error), message: error instanceof Error ? error.message : String(error) };
}
