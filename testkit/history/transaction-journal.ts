import type { Answer } from '../client/http-client.js';
import type { Status, Transaction } from '../client/transactions.js';

export const DELETE = Symbol('delete');
export type Change = Status | typeof DELETE;

/** What the clients know of one transaction. */
export interface TransactionEntry {
  /** As last acknowledged. */
  seen: Transaction;
  /** A change that was sent and whose outcome is not known: the new status, or the deletion. */
  pending?: Change;
  gone: boolean;
}

/** A create that was sent; `fromAccount` is of this create alone, so that a lost answer can be found in the list. */
export interface Draft {
  readonly fromAccount: string;
  readonly toAccount: string;
  readonly amount: number;
  /** The largest id seen before this create was sent: its own id must be above it. */
  readonly floor: number;
}

/**
 * Every transaction that the clients sent and what was answered, in memory. Each answer is held against all earlier
 * ones as it comes; what cannot be reconciled is a violation:
 *
 * 1. An id is above every id that was seen before its create was sent, so none is ever used twice.
 * 2. A transaction never changes but for its status.
 * 3. A status is the one last acknowledged, or the one change in flight when the process died.
 * 4. An acknowledged deletion stays, and nothing else disappears, but for a deletion in flight when the process died.
 * 5. No other answer is given, but 503 where the test allows for it.
 */
export class TransactionJournal {
  readonly entries = new Map<number, TransactionEntry>();
  /** Creates without an answer, by their `fromAccount`. */
  readonly drafts = new Map<string, Draft>();
  #highestId = 0;
  #drafted = 0;

  constructor(
    readonly violations: string[],
    readonly mayBeUnavailable: () => boolean,
  ) {}

  draft(amount: number): Draft {
    this.#drafted += 1;
    const draft = { fromAccount: `payer-${this.#drafted}`, toAccount: 'payee', amount, floor: this.#highestId };
    this.drafts.set(draft.fromAccount, draft);
    return draft;
  }

  created(draft: Draft, answer: Answer): TransactionEntry | undefined {
    if (answer.status !== 201) {
      this.#unexpected(`create ${draft.fromAccount}`, answer);
      return undefined;
    }
    return this.adopt(draft, answer.json<Transaction>());
  }

  /** A transaction that comes from this draft, as the answer to the create or as the list shows it. */
  adopt(draft: Draft, transaction: Transaction): TransactionEntry {
    this.drafts.delete(draft.fromAccount);
    const { transactionId: id, fromAccount, toAccount, amount, status } = transaction;
    if (id <= draft.floor) this.violations.push(`id ${id} is not above ${draft.floor}, seen before its create`);
    if (this.entries.has(id)) this.violations.push(`id ${id} is used twice`);
    if (fromAccount !== draft.fromAccount || toAccount !== draft.toAccount || amount !== draft.amount) {
      this.violations.push(`${JSON.stringify(draft)} was created as ${JSON.stringify(transaction)}`);
    }
    if (status !== 'PENDING') this.violations.push(`transaction ${id} begins as ${status}`);
    const entry = { seen: transaction, gone: false };
    this.entries.set(id, entry);
    this.#highestId = Math.max(this.#highestId, id);
    return entry;
  }

  /** Sends one change through the journal; it stays pending when its outcome is not told. */
  async change(entry: TransactionEntry, change: Change, send: () => Promise<Answer>): Promise<Answer> {
    entry.pending = change;
    const answer = await send();
    const id = entry.seen.transactionId;
    if (answer.status !== (change === DELETE ? 204 : 200)) {
      this.#unexpected(`${String(change)} of transaction ${id}`, answer);
      return answer;
    }
    if (change === DELETE) {
      entry.gone = true;
      delete entry.pending;
    } else {
      this.showed(entry, answer.json<Transaction>());
      if (entry.seen.status !== change) this.violations.push(`${change} of ${id} answered ${answer.text}`);
    }
    return answer;
  }

  /**
   * What a read shows of a transaction, undefined when it is not there. Settles a change whose outcome was not known:
   * from here on the service must stay with what it showed.
   */
  showed(entry: TransactionEntry, shown: Transaction | undefined): void {
    const { seen, pending, gone } = entry;
    const id = seen.transactionId;
    delete entry.pending;
    if (shown === undefined) {
      if (!gone && pending !== DELETE) this.violations.push(`transaction ${id} (${seen.status}) is lost`);
      entry.gone = true;
      return;
    }
    if (gone) this.violations.push(`transaction ${id} is back after its deletion was acknowledged`);
    const allowed = pending === undefined ? [seen.status] : [seen.status, pending];
    if (!allowed.includes(shown.status)) {
      this.violations.push(`transaction ${id} is ${shown.status}, not ${allowed.map(String).join(' or ')}`);
    }
    const { status: _before, ...fixed } = seen;
    const { status: _now, ...shownFixed } = shown;
    if (JSON.stringify(fixed) !== JSON.stringify(shownFixed)) {
      this.violations.push(`transaction ${JSON.stringify(seen)} became ${JSON.stringify(shown)}`);
    }
    entry.seen = shown;
  }

  /** The whole list as read while no client was at work: every transaction that must be there, and no other. */
  listed(list: readonly Transaction[]): void {
    const shown = new Map(list.map((transaction) => [transaction.transactionId, transaction]));
    for (const [id, entry] of this.entries) {
      this.showed(entry, shown.get(id));
      shown.delete(id);
    }
    for (const transaction of shown.values()) {
      const draft = this.drafts.get(transaction.fromAccount);
      if (draft) this.adopt(draft, transaction);
      else this.violations.push(`the list shows what nobody sent: ${JSON.stringify(transaction)}`);
    }
    // The creates that are not in the list by now never happened: the process that worked on them is gone.
    this.drafts.clear();
  }

  live(): TransactionEntry[] {
    return [...this.entries.values()].filter((entry) => !entry.gone);
  }

  deleted(): TransactionEntry[] {
    return [...this.entries.values()].filter((entry) => entry.gone);
  }

  #unexpected(what: string, answer: Answer): void {
    if (answer.status === 503 && this.mayBeUnavailable()) return;
    this.violations.push(`${what} answered ${answer.status}: ${answer.text}`);
  }
}
