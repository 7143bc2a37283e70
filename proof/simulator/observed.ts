import { unitsOf } from '#idempay/payments/values/money.js';
import type { Fence } from '#idempay/payments/values/payment.js';
import { type TransactionRow, transactionOf } from '#idempay/stores/shared/transaction-rows.js';
import type { Transaction } from '#idempay/transactions/transaction.js';
import type { StoredPayment } from './models/payment-statements.js';
import { EPOCH_MS, nameOf } from './payments/keys.js';
import type { Simulation } from './simulation.js';

/** A row under its key's short name. Times without an underscore are the simulation's own, which no fault moves. */
export interface ObservedPayment extends StoredPayment {
  /** The row as its claim made it. */
  readonly claimed: StoredPayment;
  /** When its claim was judged, and when its outcome was committed. */
  readonly firstThereAt: number;
  /** When its claim was committed: later than it was judged, if it waited in between. */
  readonly committedAt: number;
  /** When it was pending for the first time. Undefined if it never was. */
  readonly pendingFrom: number | undefined;
  readonly finalAt: number | undefined;
  /** By the store's clock. */
  readonly expiresAt: number | undefined;
}

/** The payments' rows as the statements of a store have made them: for the checker. */
export class ObservedPayments {
  readonly byKey = new Map<string, ObservedPayment>();
  /** Rows that retention removed, as they were, with the moment. An order may be paid anew then, so that a key may be among them twice. */
  readonly removed: { readonly row: ObservedPayment; readonly at: number }[] = [];
  /** Rows that a restore took back, as they were then, with the moment. An earlier state of a row is among `byKey` again. */
  readonly lost: (ObservedPayment & { readonly lostAt: number })[] = [];
  /** A restore left no payment: then nobody knows which processor was asked before. */
  wasSetBackToNothing = false;
  /** Changes that no store may ever make. */
  readonly broken: string[] = [];
  private readonly stored = new Map<string, StoredPayment>();

  constructor(private readonly simulation: Simulation) {}

  rowOf(name: string): ObservedPayment | undefined {
    return this.rowsOf(name)[0];
  }

  /** The newest one first. */
  rowsOf(name: string): ObservedPayment[] {
    const removed = this.removed.filter(({ row }) => row.key === name).map(({ row }) => row);
    return [this.byKey.get(name) ?? [], removed.reverse()].flat();
  }

  observeAll(rows: Iterable<StoredPayment>, judgedAt: (key: string) => number): void {
    const keys = new Set<string>();
    for (const row of rows) {
      keys.add(row.key);
      this.observe(row, undefined, judgedAt(row.key));
    }
    const removed = [...this.stored.keys()].filter((key) => !keys.has(key)).map((key) => this.remove(key));
    for (const { key, reference, client } of removed) {
      const isLeft = (row: StoredPayment) => row.reference === reference && row.client === client;
      if (reference === null || ![...this.stored.values()].some(isLeft)) continue;
      this.broken.push(`${key}: a row was removed and others of its reference were not`);
    }
  }

  /** Records a row as it is stored now. `fence` says who wrote it, if only its holder may. */
  observe(row: StoredPayment, fence: Fence | undefined, judgedAt = this.simulation.time): void {
    const before = this.stored.get(row.key);
    if (before && isSame(before, row)) return;
    this.stored.set(row.key, row);
    const name = nameOf(row.key);
    const seen = this.byKey.get(name);
    if (before && seen && isSame({ ...before, refunded: row.refunded }, row)) {
      this.noteSum(name, seen, row);
      return;
    }
    this.countChange(name, row, before);
    this.judgeClaim(name, row, before);
    if (fence && (before?.owner !== fence.owner || before.epoch !== fence.epoch)) {
      this.broken.push(`${name}: ${fence.owner}, epoch ${fence.epoch}, wrote a row that it did not hold`);
    }
    if (seen?.finalAt !== undefined) this.broken.push(`${name}: a final row was written again`);
    this.byKey.set(name, {
      ...{ ...row, key: name },
      claimed: seen?.claimed ?? row,
      firstThereAt: seen?.firstThereAt ?? judgedAt,
      committedAt: seen?.committedAt ?? this.simulation.time,
      pendingFrom: seen?.pendingFrom ?? (row.pending_until === null ? undefined : this.simulation.time),
      finalAt: row.state === 'PROCESSING' ? undefined : this.simulation.time,
      expiresAt: row.expires_at === null ? undefined : row.expires_at - EPOCH_MS,
    });
  }

  private judgeClaim(name: string, row: StoredPayment, before: StoredPayment | undefined): void {
    if (before || row.reference !== null || !this.rowOf(name)) return;
    this.broken.push(`${name}: a key was claimed again after its row had been removed`);
  }

  /** Only the sum of its refunds has changed, of which nobody holds the row. */
  private noteSum(name: string, seen: ObservedPayment, { refunded, amount, currency }: StoredPayment): void {
    const charged = unitsOf({ amount: String(amount), currency: String(currency) });
    const isTooMuch = Number(refunded) > charged && !this.hasRefundAfterLoss(seen.claimed.key);
    if (Number(refunded) < 0 || isTooMuch) this.broken.push(`${name}: the sum of its refunds is ${refunded}`);
    this.byKey.set(name, { ...seen, refunded });
  }

  /** Then more may be found to be given back than was asked for, while another refund that the processor will decline has the part. */
  private hasRefundAfterLoss(payment: string): boolean {
    return [...this.byKey.values()].some((row) => row.refund_of === payment && Boolean(row.claimed_after_loss));
  }

  /** The store was set back to these rows. */
  setBack(rows: Iterable<StoredPayment>): void {
    const kept = new Map(Array.from(rows, (row) => [row.key, row]));
    if (![...kept.values()].some(({ processor }) => processor !== null)) this.wasSetBackToNothing = true;
    for (const [key, row] of this.stored) {
      const name = nameOf(key);
      const before = kept.get(key);
      const seen = this.byKey.get(name);
      if (!seen || (before && isSame(before, row))) continue;
      this.simulation.count('payments lost');
      this.lost.push({ ...seen, lostAt: this.simulation.time });
      this.stored.delete(key);
      this.byKey.delete(name);
      if (!before) continue;
      this.stored.set(key, before);
      // Of a final row only the sum of its refunds is written again, so that an earlier state of another row is not final.
      const later = before.state === 'PROCESSING' && { finalAt: undefined, expiresAt: undefined };
      const pendingFrom = before.pending_until === null ? undefined : seen.pendingFrom;
      this.byKey.set(name, { ...seen, ...before, key: name, pendingFrom, ...later });
    }
  }

  private countChange(name: string, row: StoredPayment, before: StoredPayment | undefined): void {
    const { simulation } = this;
    if (!before) {
      simulation.count(kindOf(row));
      if (row.reference !== null) simulation.count(`payments of references, attempt ${row.attempt}`);
      if (row.resolution !== null) simulation.count('missing attempts inserted');
    } else if (row.epoch > before.epoch && row.state === 'PROCESSING') {
      simulation.count('takeovers');
      simulation.note(`${name} is now owned by ${row.owner}, epoch ${row.epoch}`);
    }
    if (row.state === 'PROCESSING') {
      if (row.unsent_epoch === row.epoch) simulation.count('given up unsent');
      return;
    }
    simulation.count(endOf(row));
    if (before && before.amount !== row.amount) simulation.count('another amount had been charged');
    if (row.resolution !== null) simulation.count('resolved by an operator');
  }

  private remove(key: string): ObservedPayment {
    const name = nameOf(key);
    const row = this.byKey.get(name) as ObservedPayment;
    this.simulation.count('payments removed');
    if (row.state === 'PROCESSING') this.broken.push(`${name}: a row was removed that was not final`);
    this.removed.push({ row, at: this.simulation.time });
    this.stored.delete(key);
    this.byKey.delete(name);
    return row;
  }
}

const kindOf = ({ refund_of }: StoredPayment) => (refund_of === null ? 'payments' : 'refunds');
const endOf = ({ refund_of, state }: StoredPayment) => `${refund_of === null ? '' : 'refunds '}${state.toLowerCase()}`;

const isSame = (before: StoredPayment, row: StoredPayment) =>
  before === row || Object.entries(row).every(([name, value]) => before[name as keyof StoredPayment] === value);

/** All rows from one commit to the next. */
type TableState = { readonly from: number; readonly rows: readonly Transaction[] };

/** The transactions' rows as the statements of a store have made them: for the checker. */
export class ObservedTransactions {
  readonly rows = new Map<number, Transaction>();
  readonly versions = new Map<number, Transaction[]>();
  readonly states: TableState[] = [{ from: 0, rows: [] }];
  readonly removedAt = new Map<number, number>();

  constructor(private readonly simulation: Simulation) {}

  observe(id: number, row: TransactionRow | undefined): void {
    const before = this.rows.get(id);
    if (row?.version === before?.version) return;
    if (row) {
      const transaction = transactionOf(row);
      this.rows.set(id, transaction);
      this.versions.set(id, [...(this.versions.get(id) ?? []), transaction]);
    } else {
      this.rows.delete(id);
      this.removedAt.set(id, this.simulation.time);
    }
    const rows = [...this.rows.values()].sort((one, other) => one.id - other.id);
    this.states.push({ from: this.simulation.time, rows });
  }
}
