import { type TransactionRow, transactionOf } from '#idempay/deployments/rows.js';
import type { Transaction } from '#idempay/transactions/transaction.js';
import type { Simulation } from '../simulation.js';

/** All rows from one commit to the next. */
interface TableState {
  readonly from: number;
  readonly rows: readonly Transaction[];
}

/** What the statements of a store have made of the transactions' rows: for the checker. */
export class ObservedTransactions {
  readonly rows = new Map<number, Transaction>();
  /** Every version of every row, and every state. */
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
