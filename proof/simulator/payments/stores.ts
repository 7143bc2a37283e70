import type { Clock } from '#idempay/clock.js';
import type { KeyStore } from '#idempay/payments/ports/key-store.js';
import type { Ledger } from '#idempay/payments/ports/ledger.js';
import { DECLINED, recordValueOf } from '#idempay/payments/values/payment.js';
import type { Ambushes } from '../ambushes.js';
import { startDatabaseClock } from '../database-clock.js';
import type { WallClock } from '../instance.js';
import { Server } from '../network.js';
import type { Actor, Simulation } from '../simulation.js';
import { Statements } from '../statements.js';
import { openEmbeddedStores, PaymentFile } from './embedded-stores.js';
import { createSimulatedKeyStore, KeyServer } from './key-store.js';
import { createSimulatedLedger } from './ledger.js';
import { PaymentRows } from './rows.js';

/** As the adapters have it: a command, and a statement with its client's patience. */
const KEY_STORE_DEADLINE_MS = 900;
export const LEDGER_DEADLINE_MS = 6_000;
const SLOW_COMMITS = 0.02;
const SLOWEST_COMMIT_MS = 5_000;

/** By the simulation's own time. */
export interface Interval {
  readonly from: number;
  readonly to: number;
}

/** The stores of a history, whichever the deployment. */
export interface PaymentStores {
  readonly rows: PaymentRows;
  readonly lines: { readonly 'key store': Server; readonly ledger: Server };
  readonly walls: { readonly 'key store': WallClock; readonly ledger: WallClock };
  /** Undefined where nothing is ever forgotten. */
  readonly keyServer: KeyServer | undefined;
  /** When a statement of the ledger took its time, and others had to wait for its row. */
  readonly slowCommits: readonly (Interval & { readonly key: string })[];
  open(instance: Actor, clock: Clock): Promise<{ keys: KeyStore; ledger: Ledger }>;
  /** Until when a key could be begun, at the latest: by the simulation's own time, so where no clock was moved. */
  goodUntil(key: string): number;
  /** The final values that the key records tell: the transaction id, or `DECLINED`. */
  recordedOutcomes(): ReadonlyMap<string, string>;
}

export function distributedStores(simulation: Simulation, ambushes: Ambushes): PaymentStores {
  const keyServer = new KeyServer(simulation);
  const rows = new PaymentRows(simulation, { aheadMs: 0 });
  const keyLine = new Server(simulation, ambushes, {
    name: 'the key store',
    deadlineMs: KEY_STORE_DEADLINE_MS,
    mayRepeat: true,
  });
  const ledgerLine = new Server(simulation, ambushes, { name: 'the ledger', deadlineMs: LEDGER_DEADLINE_MS });
  const statements = new Statements<string>(simulation);
  const slowCommits: (Interval & { readonly key: string })[] = [];
  const commitsAfterMs = (key: string) => {
    const random = ledgerLine.luckOf(`commit ${key}`);
    if (random.fraction() >= SLOW_COMMITS) return 0;
    const ms = random.fraction() * SLOWEST_COMMIT_MS;
    slowCommits.push({ key, from: simulation.time, to: simulation.time + ms });
    return ms;
  };
  return {
    rows,
    keyServer,
    slowCommits,
    lines: { 'key store': keyLine, ledger: ledgerLine },
    walls: { 'key store': keyServer.wall, ledger: rows.wall },
    async open(instance, clock) {
      const databaseClock = await startDatabaseClock(ledgerLine, () => rows.now(), instance, clock);
      return {
        keys: createSimulatedKeyStore(simulation, keyLine, keyServer, instance, clock),
        ledger: createSimulatedLedger(ledgerLine, rows, instance, databaseClock, statements, commitsAfterMs),
      };
    },
    goodUntil: (key) => keyServer.goodUntil.get(key) ?? 0,
    recordedOutcomes() {
      const outcomes = new Map<string, string>();
      for (const [key, { final }] of keyServer.records) if (final) outcomes.set(key, recordValueOf(final.outcome));
      return outcomes;
    },
  };
}

/** `machine`: the one clock of the one machine. */
export function embeddedStores(simulation: Simulation, ambushes: Ambushes, machine: WallClock): PaymentStores {
  const rows = new PaymentRows(simulation, machine);
  const file = new PaymentFile(rows);
  const line = new Server(simulation, ambushes, {
    name: 'the file',
    deadlineMs: LEDGER_DEADLINE_MS,
    diesWithCaller: true,
  });
  return {
    rows,
    keyServer: undefined,
    slowCommits: [],
    lines: { 'key store': line, ledger: line },
    walls: { 'key store': machine, ledger: machine },
    open: async (instance, clock) => openEmbeddedStores(file, line, instance, clock),
    goodUntil: (key) => file.goodUntil.get(key) ?? 0,
    recordedOutcomes: () => file.outcomes(),
  };
}

/** What the record of a payment must say once it says anything final. */
export function recordOf(row: { state: string; transactionId: string }): string {
  return row.state === 'DECLINED' ? DECLINED : row.transactionId;
}
