import type { RemovalRow } from '#idempay/deployments/transaction-removals.js';
import {
  FIRST_TRANSACTION_ID,
  type NewTransaction,
  type Transaction,
  type TransactionFilter,
} from '#idempay/transactions/transaction.js';
import type { WallClock } from '../instance.js';
import type { Simulation } from '../simulation.js';
import { Statements } from '../statements.js';

/** All that there was from one commit to the next. */
export interface TableState {
  readonly from: number;
  readonly rows: readonly Transaction[];
}

/** What a statement makes of a row, judged when the row is its own. Undefined: nothing. */
export type Change = (row: Transaction | undefined) => Transaction | 'removed' | undefined;

/** The transactions in the store of record: committed one after another, none ever lost. */
export class TransactionTable {
  readonly rows = new Map<number, Transaction>();
  readonly wall: WallClock = { aheadMs: 0 };
  version = 0;
  lastRemovalVersion = 0;
  /** Every version of every row, and every state: for the judge. */
  readonly versions = new Map<number, Transaction[]>();
  readonly states: TableState[] = [{ from: 0, rows: [] }];
  /** As the store remembers them, the oldest first. */
  readonly removals: RemovalRow[] = [];
  readonly removedAt = new Map<number, number>();
  private lastId = FIRST_TRANSACTION_ID - 1;
  private readonly statements: Statements<number>;

  constructor(private readonly simulation: Simulation) {
    this.statements = new Statements(simulation);
  }

  now(): number {
    return this.simulation.time + this.wall.aheadMs;
  }

  create(created: NewTransaction): Transaction {
    this.lastId += 1;
    this.version += 1;
    const row: Transaction = { ...created, id: this.lastId, version: 1, createdAt: this.now() };
    this.commit(row);
    return row;
  }

  /** What the statements of a real store have made of a row and of the list. */
  observe(id: number, row: Transaction | undefined, version: number, lastRemovalVersion: number): void {
    const before = this.rows.get(id);
    if (row && row.version !== before?.version) this.commit(row);
    else if (before && !row) this.remove(id);
    this.version = version;
    this.lastRemovalVersion = lastRemovalVersion;
  }

  /** A statement of its own: it waits for the row, is judged then, and commits some time later. */
  execute(
    id: number,
    change: Change,
    commitsAfterMs: number,
    reply: (changed: ReturnType<Change>) => void,
    refuse: (fault: Error) => void,
  ): void {
    const begin = () => {
      const changed = change(this.rows.get(id));
      const commit = () => {
        if (changed === 'removed') this.remove(id);
        else if (changed) this.commit(changed);
        return changed;
      };
      return { commitsAfterMs: changed ? commitsAfterMs : 0, commit };
    };
    this.statements.execute(id, begin, reply, refuse);
  }

  matching(filter: TransactionFilter): Transaction[] {
    return [...this.rows.values()].filter((row) => matches(row, filter));
  }

  private commit(row: Transaction): void {
    this.rows.set(row.id, row);
    const versions = this.versions.get(row.id) ?? [];
    versions.push(row);
    this.versions.set(row.id, versions);
    this.remember();
  }

  private remove(id: number): void {
    const row = this.rows.get(id);
    this.rows.delete(id);
    this.version += 1;
    if (row) {
      this.removals.push({
        version: this.version,
        previous_version: this.lastRemovalVersion,
        id,
        from_account: row.fromAccount,
        to_account: row.toAccount,
      });
    }
    this.lastRemovalVersion = this.version;
    this.removedAt.set(id, this.simulation.time);
    this.remember();
  }

  private remember(): void {
    this.states.push({ from: this.simulation.time, rows: [...this.rows.values()] });
  }
}

export function matches({ fromAccount, toAccount }: Transaction, { from, to }: TransactionFilter): boolean {
  return (from === '' || from === fromAccount) && (to === '' || to === toAccount);
}
