import type { KeyStore } from '#idempay/payments/ports/key-store.js';
import { type Fence, KEY_GENERATED } from '#idempay/payments/values/payment.js';
import type { Clock } from '#idempay/platform/clock.js';
import { decorated } from '#idempay/platform/decorated.js';
import type { Lock } from '#idempay/stores/embedded/key-store.js';
import { type TransactionRow, transactionOf } from '#idempay/stores/shared/transaction-rows.js';
import type { NewTransaction } from '#idempay/transactions/transaction.js';
import type { Ports } from '../../testkit/protocol/ports.js';
import type { TriggeredFaults } from './faults.js';
import { openDistributedModel } from './models/distributed.js';
import { directLine } from './models/line.js';
import type { StoredPayment } from './models/payment-statements.js';
import { PostgresServer, type Values } from './models/postgres-server.js';
import { RedisServer } from './models/redis-server.js';
import { CREATES, SqliteFile, type Written } from './models/sqlite-file.js';
import { createLink } from './network.js';
import { ObservedPayments, ObservedTransactions } from './observed.js';
import { EPOCH_MS, nameOf } from './payments/keys.js';
import type { WallClock } from './processes.js';
import type { Process, Simulation } from './simulation.js';

export type SimulatedPorts = Omit<Ports, 'keyValueStore'>;

/** As the adapters have it: a command, and a statement with its client's patience. */
const COMMAND_DEADLINE_MS = 900;
export const STATEMENT_DEADLINE_MS = 6_000;
const SLOWEST_COMMIT_MS = 5_000;
const RECORD = /\{([^:}]+)\}$/;
const LAST_WRITERS: readonly string[] = ['renew', 'abandon', 'leave', 'settle'];

/** By the simulation's own time. */
export type Interval = { readonly from: number; readonly to: number };

export type ServerName = 'redis' | 'postgres';

/** The stores of a history; on the embedded deployment both names stand for the file, in which nothing is forgotten. */
export type Stores = Omit<ReturnType<typeof distributedStores>, 'redis' | 'postgres'> & {
  readonly redis: RedisServer | undefined;
  readonly postgres: PostgresServer | undefined;
};

function observed(simulation: Simulation) {
  const [payments, transactions] = [new ObservedPayments(simulation), new ObservedTransactions(simulation)];
  // `goodUntil`: until when each key could be begun, at the latest; by the simulation's own time.
  return { payments, transactions, goodUntil: new Map<string, number>() };
}

export function distributedStores(
  simulation: Simulation,
  triggered: TriggeredFaults,
  settings: { readonly slowCommits: number; readonly transactionCacheTtlMs: number },
) {
  const walls = { redis: { aheadMs: 0 }, postgres: { aheadMs: 0 } };
  const now = (wall: WallClock) => () => EPOCH_MS + simulation.time + wall.aheadMs;
  const { payments, transactions, goodUntil } = observed(simulation);
  /** When a statement took long to commit, and others had to wait for its row. */
  const slowCommits: (Interval & { readonly subject: string })[] = [];
  /** Chances of the moment; how many faults refuse fills. */
  const conditions = { slowCommits: settings.slowCommits, noRoom: 0 };
  const links = {
    redis: createLink(simulation, triggered, { name: 'redis', deadlineMs: COMMAND_DEADLINE_MS }),
    postgres: createLink(simulation, triggered, { name: 'postgres', deadlineMs: STATEMENT_DEADLINE_MS }),
  };
  const redis = new RedisServer(now(walls.redis), {
    lifeSet(key, ms) {
      const [, payment] = RECORD.exec(key) ?? [];
      if (payment) goodUntil.set(nameOf(payment), simulation.time + ms);
    },
    deletedFor(key, holder) {
      if (key.endsWith(':lock')) payments.broken.push(`${key}: another owner deleted the lock of ${holder}`);
    },
  });

  function commitsAfterMs(key: string): number {
    const subject = nameOf(key);
    const random = links.postgres.rngOf(`commit ${subject}`);
    if (random.fraction() >= conditions.slowCommits) return 0;
    const ms = random.fraction() * SLOWEST_COMMIT_MS;
    // Nobody but the next owner waits for the row of an endpoint.
    if (!key.startsWith('endpoint ')) slowCommits.push({ subject, from: simulation.time, to: simulation.time + ms });
    return ms;
  }

  /** `at`: by the server's clock, when the rows of the statement were locked. */
  function committed(statement: string, values: Values, at: readonly number[]): void {
    const { tables } = postgres;
    if (/transaction|change_status/.test(statement)) {
      for (const id of new Set([...tables.transactions.keys(), ...transactions.rows.keys()])) {
        transactions.observe(id, tables.transactions.get(id));
      }
      return;
    }
    const keys = [values[0]].flat() as string[];
    const judgedAt = (key: string) =>
      (at[keys.indexOf(key)] ?? now(walls.postgres)()) - EPOCH_MS - walls.postgres.aheadMs;
    payments.observeAll(tables.payments.values(), judgedAt);
    if (statement !== 'claim' && statement !== 'claim_in_full') return;
    for (const [index, claimBefore] of (values[9] as number[]).entries()) {
      if ((at[index] ?? 0) > claimBefore) simulation.count('claims too late');
    }
  }

  const postgres: PostgresServer = new PostgresServer({
    now: now(walls.postgres),
    monotonic: () => simulation.time,
    after: (ms, callBack) => simulation.arrive(ms, undefined, callBack, 'a commit'),
    commitsAfterMs,
    committed,
  });
  return {
    ...{ payments, transactions, links, walls, redis, postgres, conditions, slowCommits, goodUntil },
    clockLeaps: [] as readonly number[],
    open: (process: Process, clock: Clock): Promise<SimulatedPorts> =>
      openDistributedModel(
        { redis, postgres },
        { redis: links.redis.lineOf(process), postgres: links.postgres.lineOf(process) },
        { ...settings, clock, roomForFills: () => conditions.noRoom === 0 },
      ),
    /** Returns what sets the store of record back to this moment; `SqliteFile` says when it may be called. */
    backUp() {
      const setBack = postgres.backUp();
      return () => {
        setBack();
        payments.setBack(postgres.tables.payments.values());
      };
    },
    /** At once, and by no process: what is there before everything begins. */
    async create({ fromAccount, toAccount, amount, status }: NewTransaction) {
      const values = [[fromAccount], [toAccount], [Number(amount) * 10_000], [status]];
      const [row] = postgres.read({ name: 'create_transactions', text: '' }, values) as [TransactionRow];
      transactions.observe(row.id, row);
      return transactionOf(row);
    },
    /** The key and the final value of the key records: the transaction id, or `DECLINED`. */
    recordedOutcomes() {
      const values = [...redis.keys()].map((key) => [RECORD.exec(key)?.[1], redis.hash(key)?.get('value')] as const);
      const final = values.flatMap(([key, value]) => (key && value && value !== KEY_GENERATED ? [[key, value]] : []));
      return final as [string, string][];
    },
    query: (_sql: string): readonly unknown[] => [],
    close() {},
  };
}

export function embeddedStores(simulation: Simulation, triggered: TriggeredFaults, machine: WallClock): Stores {
  const { payments, transactions, goodUntil } = observed(simulation);
  // The writer has a limit of its own for its thread, which itself waits for the disk.
  const link = createLink(simulation, triggered, { name: 'file', diesWithCaller: true });

  function committed(written: readonly Written[]): void {
    for (const one of written) {
      const { name, input, result } = one;
      if (name === 'issueKey' && result !== null) {
        goodUntil.set(nameOf(String(input.key)), simulation.time + Number(input.idempotencyTtlMs));
      }
      if (name === 'claim' && (result as { state?: string }).state === 'too late') simulation.count('claims too late');
      observeRows(one);
    }
    simulation.count(written.length > 1 ? 'group commits' : 'commits of one operation');
  }

  function observeRows({ name, input, rows }: Written): void {
    const { key, id } = input;
    if (id !== undefined || CREATES.has(name)) {
      const [row] = rows as readonly TransactionRow[];
      transactions.observe(Number(id ?? row?.id), row);
    } else if (key === undefined) payments.observeAll(rows as StoredPayment[], () => simulation.time);
    else {
      const fence = LAST_WRITERS.includes(name) ? (input as unknown as Fence) : undefined;
      for (const row of rows as StoredPayment[]) payments.observe(row, fence);
    }
  }

  const now = () => EPOCH_MS + simulation.time + machine.aheadMs;
  const file = new SqliteFile(now, committed);
  const clock = { now, monotonic: () => 0, after: () => () => {} };
  // A clock that was set while a process ran counts from the next start on.
  const clockLeaps: number[] = [];
  let aheadAtStart = machine.aheadMs;
  return {
    ...{ payments, transactions, goodUntil, clockLeaps, redis: undefined, postgres: undefined, slowCommits: [] },
    links: { redis: link, postgres: link },
    walls: { redis: machine, postgres: machine },
    conditions: { slowCommits: 0, noRoom: 0 },
    async open(process, ownClock) {
      if (machine.aheadMs > aheadAtStart) clockLeaps.push(simulation.time);
      aheadAtStart = machine.aheadMs;
      const { locks, ...ports } = file.open(link.lineOf(process), ownClock);
      return { ...ports, keys: withLockRule(ports.keys, locks, payments.broken) };
    },
    backUp() {
      const setBack = file.backUp(clock);
      return () => payments.setBack(setBack());
    },
    async create(transaction) {
      return file.open(directLine, clock).transactions.create(transaction);
    },
    recordedOutcomes() {
      // A record that has expired stays until it is written again, and nobody reads it (found: seeds 60920 and 61098).
      const rows = file.query(
        `SELECT key, value FROM idempotency_keys, last_commit WHERE value <> '${KEY_GENERATED}' AND expires_at > clock_ms`,
      );
      return (rows as { key: string; value: string }[]).map(({ key, value }) => [key, value]);
    },
    query: (sql) => file.query(sql),
    close: () => file.close(),
  };
}

/**
 * A lock is given back by nobody but its holder. The locks are read from the map in which the store keeps them: to ask the store would let
 * it write that a time is over.
 */
function withLockRule(store: KeyStore, locks: ReadonlyMap<string, Lock>, broken: string[]): KeyStore {
  function unlock(key: string, owner: string, work: () => Promise<void>): Promise<void> {
    const holder = locks.get(key)?.owner;
    // The lock is gone when the call returns.
    const done = work();
    if (holder !== undefined && holder !== owner && !locks.has(key)) {
      broken.push(`${nameOf(key)}: ${owner} deleted the lock of ${holder}`);
    }
    return done;
  }
  return decorated(store, {
    finish: (next) => (key, owner, final) => unlock(key, owner, () => next(key, owner, final)),
    release: (next) => (key, owner) => unlock(key, owner, () => next(key, owner)),
    forget: (next) => (key, owner) => unlock(key, owner, () => next(key, owner)),
  });
}
