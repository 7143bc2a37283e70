import { isOfCheck } from './ids.js';
import { idsOf, type StatementRow, type UnreadRow } from './row.js';
import type { StatementContent } from './statement.js';

export interface Entry {
  readonly row: StatementRow | UnreadRow;
  /** True if a payment or a refund of ours has taken it. */
  isTaken: boolean;
}

export interface ReadEntry extends Entry {
  readonly row: StatementRow;
}

/** The lines of a statement, and each id that one of them names. */
export class StatementLines {
  readonly entries: readonly Entry[];
  readonly hasSigns: boolean;
  /** Nearly every id has one line, and an array for each would take as much memory as the lines. */
  private readonly byId = new Map<string, Entry | Entry[]>();

  constructor({ rows, statedRefunds, unread, hasSigns }: StatementContent) {
    this.hasSigns = hasSigns;
    this.entries = [...rows, ...statedRefunds, ...unread].map((row) => ({ row, isTaken: false }));
    for (const entry of this.entries) for (const id of idsOfLine(entry.row)) this.note(id, entry);
  }

  has(id: string): boolean {
    return this.byId.has(id);
  }

  withId(id: string): readonly Entry[] {
    const found = this.byId.get(id) ?? [];
    return Array.isArray(found) ? found : [found];
  }

  /** The lines that name a payment or a refund by its own key or transaction id. */
  about({ idempotencyKey, transactionId }: { idempotencyKey: string; transactionId: string }): Entry[] {
    return [...this.withId(idempotencyKey), ...this.withId(transactionId)];
  }

  forget(): void {
    this.byId.clear();
  }

  private note(id: string, entry: Entry): void {
    const known = this.byId.get(id);
    if (known === undefined) this.byId.set(id, entry);
    else if (Array.isArray(known)) known.push(entry);
    else if (known !== entry) this.byId.set(id, [known, entry]);
  }
}

export const isRead = (entry: Entry): entry is ReadEntry => 'kind' in entry.row;

export const isRefundLine = (entry: Entry): entry is ReadEntry => isRead(entry) && entry.row.kind === 'refund';

/** Asked only of a line that nothing of ours has taken: an order of ours may have such a name. */
export function isCheck({ kind, isUntypedDebit, reference, order }: StatementRow): boolean {
  const isMoved = kind === 'payment' || kind === 'refund' || isUntypedDebit;
  return isMoved && (isOfCheck(reference) || isOfCheck(order));
}

function idsOfLine(row: StatementRow | UnreadRow): readonly string[] {
  return 'problem' in row ? row.ids : idsOf(row);
}
