import { type Statement, StatementRefused } from '#idempay/stores/postgres/postgres.js';
import type { CacheEpoch } from '#idempay/stores/shared/cache-epochs.js';
import type { TransactionRow } from '#idempay/stores/shared/rows.js';
import { LOCK_TIMEOUT_MS, STATEMENT_TIMEOUT_MS } from '#idempay/stores/shared/time-limits.js';
import type { RemovalRow } from '#idempay/stores/shared/transaction-removals.js';
import { FIRST_TRANSACTION_ID } from '#idempay/transactions/transaction.js';
import { CREATION_STATEMENTS, type StoredCreation } from './creation-statements.js';
import { PAYMENT_STATEMENTS, type StoredPayment } from './payment-statements.js';
import { createRetention, RETENTION_STATEMENTS, type Retention } from './retention-statements.js';
import { TRANSACTION_STATEMENTS } from './transaction-statements.js';

export type Values = readonly unknown[];
export type Rows = readonly object[];

/** What the tables hold. A row is never changed, only replaced; so a copy of the maps is a snapshot. */
export interface Tables {
  readonly payments: Map<string, StoredPayment>;
  readonly retention: Retention;
  readonly transactions: Map<number, TransactionRow>;
  readonly creationKeys: Map<string, StoredCreation>;
  list: { readonly lastId: number; readonly version: number; readonly lastRemovalVersion: number };
  removals: readonly RemovalRow[];
  cache: CacheEpoch;
  /** Of the deployment's row. */
  processors: readonly string[];
}

type Locks = readonly (string | number)[];
/** The server's time when each lock was taken; for a statement without locks, the time when it ran. */
type At = readonly [number, ...number[]];

interface Modelled {
  /** What a statement does when it has what it locks. What it refuses changes nothing. A method: each declares its own values. */
  run(tables: Tables, values: Values, at: At, isLocked: (key: string | number) => boolean): Rows;
}
export type ModelledStatement = Modelled['run'];
export type Statements = Readonly<Record<string, ModelledStatement>>;

const STATEMENTS: Statements = {
  ...PAYMENT_STATEMENTS,
  ...RETENTION_STATEMENTS,
  ...TRANSACTION_STATEMENTS,
  ...CREATION_STATEMENTS,
  database_now: (_tables, _values, [now]) => [{ now }],
  confirm_durable: () => [],
  // No server is replaced here: no row is ever lost.
  may_be_lost: () => [{ mayBeLost: false, isKnown: true }],
};

/** What a statement locks until its commit, one after the other. The others lock nothing. */
function locksOf(name: string, [first]: Values): Locks {
  if (/^(claim|claim_in_full|renew|abandon|settle|settle_noted)$/.test(name)) return first as string[];
  if (/^(cancel|take_over|resolve|change_status)$/.test(name)) return [first as string];
  if (/^(note_elapsed|begin_hour|forget_hours|advance_horizon)$/.test(name)) return ['retention'];
  if (/^create_transactions/.test(name)) return ['the list'];
  if (name === 'register_processor') return ['the deployment'];
  return name === 'remove_transaction' ? [first as number, 'the list'] : [];
}

interface PostgresSettings {
  /** Its wall clock: milliseconds since the epoch. */
  readonly now: () => number;
  readonly monotonic: () => number;
  readonly after: (ms: number, callBack: () => void) => unknown;
  /** How long a statement that changes something takes to commit, by the first thing that it is about. */
  readonly commitsAfterMs?: (subject: string) => number;
  /** After each statement, before its reply; `at` as its locks were got. */
  readonly committed?: (statement: string, values: Values, at: readonly number[]) => void;
}

/** A PostgreSQL server: the adapters' statements by their names, done with maps. Rows are locked, and judged when they are. */
export class PostgresServer {
  readonly tables: Tables;
  /** The statements that wait for each lock that is held. */
  private readonly waiting = new Map<string | number, (() => void)[]>();

  constructor(private readonly settings: PostgresSettings) {
    this.tables = {
      payments: new Map(),
      retention: createRetention(settings.now()),
      transactions: new Map(),
      creationKeys: new Map(),
      list: { lastId: FIRST_TRANSACTION_ID - 1, version: 0, lastRemovalVersion: 0 },
      removals: [],
      cache: { epoch: 0, masters: [] },
      processors: [],
    };
  }

  snapshot(): Tables {
    const { payments, transactions } = this.tables;
    return { ...this.tables, payments: new Map(payments), transactions: new Map(transactions) };
  }

  read({ name }: Statement, values: Values, tables: Tables = this.tables): Rows {
    return statementOf(name)(tables, values, [this.settings.now()], () => false);
  }

  /** The server cancels a statement that takes too long, and refuses one that waits too long for one of its rows. */
  execute({ name }: Statement, values: Values, reply: (rows: Rows) => void, refuse: (fault: unknown) => void): void {
    const { settings } = this;
    const run = statementOf(name);
    const keys = locksOf(name, values);
    const cancelledAt = settings.monotonic() + STATEMENT_TIMEOUT_MS;
    const held = new Set<string | number>();
    const at: number[] = [];
    const free = () => {
      for (const key of held) this.free(key);
    };
    const commit = () => {
      try {
        const [first = settings.now(), ...others] = at;
        const changed = run(this.tables, values, [first, ...others], (key) => this.waiting.has(key));
        settings.committed?.(name, values, at);
        reply(changed);
      } catch (refusal) {
        if (!(refusal instanceof StatementRefused)) throw refusal;
        refuse(refusal);
      }
      free();
    };
    const lockNext = () => {
      const remainingMs = cancelledAt - settings.monotonic();
      const [key] = keys.slice(at.length);
      if (remainingMs <= 0) {
        free();
        refuse(new StatementRefused('57014', new Error('the statement was cancelled')));
      } else if (key !== undefined) {
        const waitsSince = settings.monotonic();
        const lockedNow = () => {
          if (settings.monotonic() - waitsSince > LOCK_TIMEOUT_MS) {
            held.add(key);
            free();
            refuse(new StatementRefused('55P03', new Error('the wait for a lock took too long')));
            return;
          }
          held.add(key);
          at.push(settings.now());
          lockNext();
        };
        if (held.has(key)) lockedNow();
        else this.take(key, lockedNow);
      } else {
        const ms = keys.length > 0 ? (settings.commitsAfterMs?.(String(keys[0])) ?? 0) : 0;
        if (ms > 0) settings.after(Math.min(ms, remainingMs), commit);
        else commit();
      }
    };
    lockNext();
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
