import { type Statement, StatementRefused } from '#idempay/deployments/distributed/postgres/postgres.js';
import { STATEMENT_TIMEOUT_MS } from '#idempay/deployments/distributed/time-limits.js';
import type { TransactionRow } from '#idempay/deployments/rows.js';
import type { RemovalRow } from '#idempay/deployments/transaction-removals.js';
import { FIRST_TRANSACTION_ID } from '#idempay/transactions/transaction.js';
import { PAYMENT_STATEMENTS } from './payment-statements.js';
import { createRetention, RETENTION_STATEMENTS, type Retention } from './retention-statements.js';
import type { StoredPayment } from './stored-payment.js';
import { TRANSACTION_STATEMENTS } from './transaction-statements.js';

export type Values = readonly unknown[];
type Rows = readonly object[];

/** What the tables hold. A row is never changed, only replaced; so a copy of the maps is a snapshot. */
export interface Tables {
  readonly payments: Map<string, StoredPayment>;
  readonly retention: Retention;
  readonly transactions: Map<number, TransactionRow>;
  list: { readonly lastId: number; readonly version: number; readonly lastRemovalVersion: number };
  removals: readonly RemovalRow[];
}

/** What a statement does when it has what it locks. `at`: of each lock the server's time when it was got. What it refuses changes nothing. */
export interface ModelledStatement {
  /** What it is about: each is locked until the commit, one after the other. */
  locks?(values: Values): readonly (string | number)[];
  run(tables: Tables, values: Values, at: readonly number[], isLocked: (key: string | number) => boolean): Rows;
}

const STATEMENTS: Readonly<Record<string, ModelledStatement>> = {
  ...PAYMENT_STATEMENTS,
  ...RETENTION_STATEMENTS,
  ...TRANSACTION_STATEMENTS,
  database_now: { run: (_tables, _values, [now = 0]) => [{ now }] },
  confirm_durable: { run: () => [] },
  // No server is replaced here: no row is ever lost.
  may_be_lost: { run: () => [{ mayBeLost: false }] },
};

export interface PostgresSettings {
  /** Its wall clock: milliseconds since the epoch. */
  readonly now: () => number;
  readonly monotonic: () => number;
  /** Calls back at a later time. */
  readonly after: (ms: number, callBack: () => void) => unknown;
  /** How long a statement that changes something takes to commit, by the first thing that it is about. */
  readonly commitsAfterMs?: (subject: string) => number;
  /** After each statement, before its reply; `at` as its locks were got. */
  readonly committed?: (statement: string, values: Values, at: readonly number[]) => void;
}

/** A PostgreSQL server: the adapters' statements by their names, done with maps. Rows are locked, and judged when they are. */
export class PostgresServer {
  readonly tables: Tables;
  /** Of each lock that is held those who wait for it. */
  private readonly waiting = new Map<string | number, (() => void)[]>();

  constructor(private readonly settings: PostgresSettings) {
    this.tables = {
      payments: new Map(),
      retention: createRetention(settings.now()),
      transactions: new Map(),
      list: { lastId: FIRST_TRANSACTION_ID - 1, version: 0, lastRemovalVersion: 0 },
      removals: [],
    };
  }

  now(): number {
    return this.settings.now();
  }

  snapshot(): Tables {
    const { payments, transactions } = this.tables;
    return { ...this.tables, payments: new Map(payments), transactions: new Map(transactions) };
  }

  read({ name }: Statement, values: Values, tables: Tables = this.tables): Rows {
    return statementOf(name).run(tables, values, [this.now()], () => false);
  }

  /** The server cancels a statement that takes too long, also one that waits for its rows. */
  execute({ name }: Statement, values: Values, reply: (rows: Rows) => void, refuse: (fault: unknown) => void): void {
    const { settings } = this;
    const { locks, run } = statementOf(name);
    const keys = locks?.(values) ?? [];
    const cancelledAt = settings.monotonic() + STATEMENT_TIMEOUT_MS;
    const held = new Set<string | number>();
    const at: number[] = [];
    const free = () => {
      for (const key of held) this.free(key);
    };
    const commit = () => {
      try {
        const changed = run(this.tables, values, at.length > 0 ? at : [this.now()], (key) => this.waiting.has(key));
        settings.committed?.(name, values, at);
        reply(changed);
      } catch (refusal) {
        if (!(refusal instanceof StatementRefused)) throw refusal;
        refuse(refusal);
      }
      free();
    };
    const goOn = (index: number) => {
      const remainingMs = cancelledAt - settings.monotonic();
      if (remainingMs <= 0) {
        free();
        refuse(new StatementRefused('57014', new Error('the statement was cancelled')));
        return;
      }
      const key = keys[index];
      if (key === undefined) {
        const ms = keys.length > 0 ? (settings.commitsAfterMs?.(String(keys[0])) ?? 0) : 0;
        if (ms > 0) settings.after(Math.min(ms, remainingMs), commit);
        else commit();
        return;
      }
      const lockedNow = () => {
        held.add(key);
        at.push(this.now());
        goOn(index + 1);
      };
      if (held.has(key)) lockedNow();
      else this.take(key, lockedNow);
    };
    goOn(0);
  }

  private take(key: string | number, run: () => void): void {
    const before = this.waiting.get(key);
    if (before) {
      before.push(run);
      return;
    }
    this.waiting.set(key, []);
    run();
  }

  private free(key: string | number): void {
    const next = this.waiting.get(key)?.shift();
    if (next) next();
    else this.waiting.delete(key);
  }
}

function statementOf(name: string): ModelledStatement {
  const statement = STATEMENTS[name];
  if (!statement) throw new Error(`no such statement here: ${name}`);
  return statement;
}
