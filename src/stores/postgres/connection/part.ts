import type { QueryResultRow } from 'pg';
import type { Clock } from '../../../platform/clock.js';
import type { StoreUnavailable } from '../../../platform/faults.js';
import { BoundedQueue } from '../../shared/bounded-queue.js';
import { IGNORED_QUEUE, type QueueMeasure } from '../../shared/store-measures.js';
import type { Postgres, Statement } from './postgres.js';

/** For statements that commit by themselves, over any connection. */
export type PostgresPart = Pick<Postgres, 'read' | 'write' | 'writeHoweverLate' | 'lastCommits'>;

/** The limit that the pool has for those that wait for a connection. */
const MAX_WAITING = 10_000;

interface WaitingStatement {
  readonly begin: () => void;
  readonly reject: (fault: StoreUnavailable) => void;
}

/**
 * The statements of one part of the service, which together use at most `connections` of the pool. While a lock keeps them waiting, the
 * other connections serve everything else. One that gets no place within `QUEUE_LIMIT_MS` is refused and was never sent; this says nothing
 * about the server, so it is not reported as its failure.
 */
export function createPart(
  database: PostgresPart,
  connections: number,
  clock: Clock,
  measure: QueueMeasure = IGNORED_QUEUE,
): PostgresPart {
  const waiting = new BoundedQueue<WaitingStatement>('PostgreSQL (connections for payments)', MAX_WAITING, clock);
  measure.watch(() => waiting.length);
  let inUse = 0;

  async function inPlace<T>(send: () => Promise<T>): Promise<T> {
    if (inUse < connections) inUse += 1;
    else await new Promise<void>((begin, reject) => waiting.add({ begin, reject }));
    try {
      return await send();
    } finally {
      const [next] = waiting.take(1);
      if (next) next.begin();
      else inUse -= 1;
    }
  }

  return {
    lastCommits: database.lastCommits,
    read: <Row extends QueryResultRow>(statement: Statement, values?: readonly unknown[]) =>
      inPlace(() => database.read<Row>(statement, values)),
    write: <Row extends QueryResultRow>(statement: Statement, values?: readonly unknown[]) =>
      inPlace(() => database.write<Row>(statement, values)),
    writeHoweverLate: <Row extends QueryResultRow>(statement: Statement, values?: readonly unknown[]) =>
      inPlace(() => database.writeHoweverLate<Row>(statement, values)),
  };
}
