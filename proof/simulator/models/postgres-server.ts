import { type Statement, StatementRefused } from '#idempay/stores/postgres/connection/postgres.js';
import type { CacheEpoch } from '#idempay/stores/shared/cache-epochs.js';
import { LOCK_TIMEOUT_MS, STATEMENT_TIMEOUT_MS } from '#idempay/stores/shared/time-limits.js';
import type { RemovalRow, TransactionRow } from '#idempay/stores/shared/transaction-rows.js';
import { FIRST_TRANSACTION_ID } from '#idempay/transactions/transaction.js';
import { CREATION_STATEMENTS, type StoredCreation } from './creation-statements.js';
import { ENDPOINT_STATEMENTS, type StoredEndpoint, type StoredSetAside } from './endpoint-statements.js';
import { adopted, type Loss, mayBeLost, NEVER_LOST } from './loss.js';
import { PAYMENT_STATEMENTS, type StoredPayment } from './payment-statements.js';
import { REFUND_STATEMENTS } from './refund-statements.js';
import { createRetention, RETENTION_STATEMENTS, type Retention } from './retention-statements.js';
import { begunIncarnation, type Incarnation, SETTLEMENT_STATEMENTS } from './settlement-statements.js';
import { TRANSACTION_STATEMENTS } from './transaction-statements.js';

export type Values = readonly unknown[];
export type Rows = readonly object[];

/** The contents of the tables. A row is never changed, only replaced; so a copy of the maps is a snapshot. */
export interface Tables {
  readonly payments: Map<string, StoredPayment>;
  readonly retention: Retention;
  readonly transactions: Map<number, TransactionRow>;
  readonly creationKeys: Map<string, StoredCreation>;
  /** By name; what is set aside, by endpoint and key. */
  readonly endpoints: Map<string, StoredEndpoint>;
  readonly setAside: Map<string, StoredSetAside>;
  list: { readonly lastId: number; readonly version: number; readonly lastRemovalVersion: number };
  removals: readonly RemovalRow[];
  cache: CacheEpoch;
  /** The deployment's row has them. */
  processors: readonly string[];
  loss: Loss;
  incarnations: readonly Incarnation[];
  /** The statements under way that change payments: their commits are still to come. */
  readonly writers: Set<string>;
}

type Locks = readonly (string | number)[];
/** The server's time when each lock was taken; for a statement without locks, the time when it ran. */
type At = readonly [number, ...number[]];

interface Modelled {
  /** Carries out a statement that has its locks. A refused statement changes nothing. A method: each declares its own values. */
  run(tables: Tables, values: Values, at: At, isLocked: (key: string | number) => boolean): Rows;
}
export type ModelledStatement = Modelled['run'];
export type Statements = Readonly<Record<string, ModelledStatement>>;

const STATEMENTS: Statements = {
  ...PAYMENT_STATEMENTS,
  ...REFUND_STATEMENTS,
  ...RETENTION_STATEMENTS,
  ...SETTLEMENT_STATEMENTS,
  ...TRANSACTION_STATEMENTS,
  ...CREATION_STATEMENTS,
  ...ENDPOINT_STATEMENTS,
  database_now: (_tables, _values, [now]) => [{ now }],
  confirm_durable: () => [],
  // The database is adopted with the restore: there is none that was not checked.
  may_be_lost: (tables, [key]: [string]) => [{ mayBeLost: mayBeLost(tables, key), isKnown: true }],
};

/** The names that a statement locks until its commit, one after the other. The other statements lock nothing. */
function locksOf(name: string, values: Values): Locks {
  const [first] = values;
  // The payment comes before its refund; an end that keeps the sum does not lock it.
  if (name === 'claim_refund') return [values[9] as string, first as string];
  if (name === 'settle_refund' || name === 'resolve_refund') {
    const [state, payment] = name === 'settle_refund' ? [values[3], values[8]] : [values[2], values[6]];
    return state === 'DECLINED' ? [payment as string, first as string] : [first as string];
  }
  if (/^(claim|claim_in_full|claim_known|renew|abandon|leave|settle|settle_noted)$/.test(name))
    return first as string[];
  if (/^(cancel|take_over|begin_ending|move_pending|settle_after_loss|resolve|change_status)$/.test(name))
    return [first as string];
  if (/^(note_elapsed|begin_hour|forget_hours|advance_horizon)$/.test(name)) return ['retention'];
  if (/^create_transactions/.test(name)) return ['the list'];
  if (CHANGES_ENDPOINT.test(name)) return [`endpoint ${first}`];
  if (name === 'register_processor') return ['the deployment'];
  return name === 'remove_transaction' ? [first as number, 'the list'] : [];
}

const CHANGES_ENDPOINT =
  /_endpoint$|^(set_settlement_aside|settlement_refused_again|remove_set_aside|resend_settlements)$/;

/** The others lock no table of payments. */
const CHANGES_PAYMENTS =
  /^(claim|cancel|take_over|begin_|due_|move_|renew|abandon|leave|settle|resolve|remove_settled)(?!.*hour)/;

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
  /** One more with each restore, which ends the connections. */
  private restores = 0;
  private executions = 0;

  constructor(private readonly settings: PostgresSettings) {
    this.tables = {
      payments: new Map(),
      retention: createRetention(settings.now()),
      transactions: new Map(),
      creationKeys: new Map(),
      endpoints: new Map(),
      setAside: new Map(),
      list: { lastId: FIRST_TRANSACTION_ID - 1, version: 0, lastRemovalVersion: 0 },
      removals: [],
      cache: { epoch: 0, masters: [] },
      processors: [],
      loss: NEVER_LOST,
      incarnations: begunIncarnation({ incarnations: [], loss: NEVER_LOST }, settings.now()),
      writers: new Set(),
    };
  }

  /**
   * Returns what sets the tables back to this moment, with what `adopt_database` then writes of payments. Statements that are under way
   * at that time are never done, and nobody hears of them.
   */
  backUp(): () => void {
    const { retention, creationKeys, endpoints, setAside } = this.tables;
    const kept = {
      ...{ ...this.snapshot(), retention: { ...retention }, creationKeys: new Map(creationKeys) },
      ...{ endpoints: new Map(endpoints), setAside: new Map(setAside) },
    };
    return () => {
      this.restores += 1;
      this.waiting.clear();
      this.tables.writers.clear();
      const now = this.settings.now();
      const loss = adopted(kept, this.tables.loss, now);
      Object.assign(this.tables, kept, { loss, incarnations: begunIncarnation({ ...kept, loss }, now) });
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
    const { restores } = this;
    const isCut = () => this.restores !== restores;
    this.executions += 1;
    const writer = `${this.executions}/1`;
    // Before it reads the clock.
    if (CHANGES_PAYMENTS.test(name) && !CHANGES_ENDPOINT.test(name)) this.tables.writers.add(writer);
    const free = () => {
      this.tables.writers.delete(writer);
      for (const key of held) this.free(key);
    };
    const commit = () => {
      if (isCut()) return;
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
