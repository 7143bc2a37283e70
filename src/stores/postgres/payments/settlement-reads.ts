import { MOST_ENDS, type SettlementBound, type Settlements } from '../../../payments/ports/settlements.js';
import { StoreUnavailable } from '../../../platform/faults.js';
import type { Permits } from '../../shared/permits.js';
import { type SettlementRow, settlementPageOf, startOf } from '../../shared/settlement-reads.js';
import type { ConfirmDurable } from '../connection/durability.js';
import type { PostgresPart } from '../connection/part.js';
import type { Statement } from '../connection/postgres.js';
import * as statements from './settlement-read-statements.js';

/**
 * The bound stays so far behind the clock. The clock of a server may be set back by less between two looks, which begins no incarnation
 * (`database-clock.ts`).
 */
const BEHIND_CLOCK_US = 200_000;
/** A prepared transaction has no process after a restart of the server. */
const PREPARED = '-1/';

/** A time that becomes the bound when the transactions that were open after it have ended. */
interface Candidate extends SettlementBound {
  /** Undefined until the transactions were looked at. */
  writers?: ReadonlySet<string>;
}

interface WritersRow {
  readonly incarnation: string;
  readonly writers: readonly string[];
}

/**
 * The feed in PostgreSQL. Settlements have the time of the statement, so neither a snapshot nor a transaction id tells which are still to
 * come; the locks on the table do (docs/engineering/decisions/0084).
 */
export function createPostgresSettlements(
  database: PostgresPart,
  confirmDurable: ConfirmDurable,
  permits: Permits,
): Settlements {
  let bound: SettlementBound | undefined;
  let candidate: Candidate | undefined;

  async function ask<Row extends object>(
    statement: Statement,
    values: readonly unknown[] = [],
  ): Promise<readonly Row[]> {
    const rows = await database.read<Row>(statement, values);
    if (rows.length > 0) return rows;
    throw new StoreUnavailable('unchanged', 'it is not known yet if rows were lost in this database');
  }

  async function readClock(): Promise<Candidate> {
    const [clock] = await ask<{ incarnation: string; now_us: number }>(statements.CLOCK);
    const { incarnation, now_us: nowUs } = clock as { incarnation: string; now_us: number };
    return { incarnation, atUs: nowUs - BEHIND_CLOCK_US };
  }

  return {
    async look() {
      const of = candidate ?? (await readClock());
      candidate = of;
      // A later statement, so that every transaction which read the clock before is among these, or has ended.
      const [row] = await ask<WritersRow>(statements.WRITERS);
      const { incarnation, writers } = row as WritersRow;
      if (candidate !== of) return bound;
      if (incarnation !== of.incarnation) {
        candidate = undefined;
        bound = undefined;
        return undefined;
      }
      const open = writers.filter((name) => of.writers?.has(name) ?? true);
      of.writers = new Set([...open, ...writers.filter((name) => name.startsWith(PREPARED))]);
      if (of.writers.size > 0) return bound?.incarnation === incarnation ? bound : undefined;
      candidate = undefined;
      const isForward = bound?.incarnation !== incarnation || of.atUs > bound.atUs;
      if (isForward) bound = { incarnation, atUs: of.atUs };
      return bound;
    },

    async page(question) {
      const { bound: until, kind, client, limit, readLimit } = question;
      const start = startOf(question);
      const values = [start.atUs, start.key, until.atUs, client ?? null, limit, readLimit];
      const statement = statements.PAGES[kind ?? 'all'];
      const rows = await permits.during(question.reader, () => ask<SettlementRow>(statement, values));
      if (rows[0]?.key) await confirmDurable();
      return settlementPageOf(rows, question, async (incarnation) => {
        const [later] = await ask<{ beganUs: number }>(statements.BEGAN_AFTER, [incarnation]);
        return later?.beganUs ?? 0;
      });
    },

    async ends(fromUs, belowUs) {
      const rows = await database.read<{ client: string | null; isRefund: boolean }>(statements.ENDS, [
        ...[fromUs, belowUs, MOST_ENDS],
      ]);
      return rows.map(({ client, isRefund }) => ({
        client: client ?? undefined,
        kind: isRefund ? 'refund' : 'payment',
      }));
    },
  };
}
