import { MOST_ENDS, type Settlements } from '../../../payments/ports/settlements.js';
import { type SettlementRow, settlementPageOf, startOf } from '../../shared/settlement-reads.js';
import type { Reader } from '../reader.js';
import type { Writer } from '../writer/writer.js';
import * as statements from './settlement-read-statements.js';

/** Settlements that are a turn of the event loop, with the time that showing them takes. */
const TURN = 50;
/** A settlement that is held for a later time is shown within about this time, also if nothing else is written. */
const EMPTY_COMMIT_EVERY_MS = 1_000;
const US_PER_MS = 1_000;

interface BoundRow {
  readonly incarnation: string;
  readonly at_us: number;
  readonly isHeld: number;
}

/** The feed in SQLite. All settlements have a time of the store's clock, which never runs back behind the last commit. */
export function createEmbeddedSettlements(
  writer: Pick<Writer, 'write'>,
  reader: Reader,
  monotonic: () => number,
  emptyCommitEveryMs = EMPTY_COMMIT_EVERY_MS,
): Settlements {
  const bound = reader.prepare(statements.BOUND);
  const pages = {
    all: reader.prepare(statements.PAGES.all),
    payment: reader.prepare(statements.PAGES.payment),
    refund: reader.prepare(statements.PAGES.refund),
  };
  const ends = reader.prepare(statements.ENDS);
  const beganAfter = reader.prepare(statements.BEGAN_AFTER);
  let committedAt = Number.NEGATIVE_INFINITY;

  const readBound = () => bound.get() as BoundRow;

  return {
    async look() {
      let read = readBound();
      if (read.isHeld === 1 && monotonic() - committedAt >= emptyCommitEveryMs) {
        committedAt = monotonic();
        await writer.write('passTime', { pastMs: read.at_us / US_PER_MS });
        read = readBound();
      }
      return { incarnation: read.incarnation, atUs: read.at_us };
    },

    async page(question) {
      const { kind, client, limit, readLimit } = question;
      // A filter reads more rows than its page has.
      await reader.listReads.wait(question.reader, client === undefined && kind === undefined ? limit / TURN : 1);
      const start = startOf(question);
      const values = [start.atUs, start.key, question.bound.atUs, client ?? null, limit, readLimit];
      const rows = pages[kind ?? 'all'].all(...values) as SettlementRow[];
      return settlementPageOf(
        rows,
        question,
        async (incarnation) => (beganAfter.get(incarnation) as { beganUs: number }).beganUs,
      );
    },

    async ends(fromUs, belowUs) {
      const rows = ends.all(fromUs, belowUs, MOST_ENDS) as { client: string | null; isRefund: number }[];
      return rows.map(({ client, isRefund }) => ({
        client: client ?? undefined,
        kind: isRefund === 1 ? 'refund' : 'payment',
      }));
    },
  };
}
