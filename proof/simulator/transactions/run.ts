import type { Transaction } from '#idempay/transactions/transaction.js';
import { createTransactions, type Transactions } from '#idempay/transactions/transactions.js';
import { Ambushes } from '../ambushes.js';
import { Fleet } from '../fleet.js';
import { Simulation } from '../simulation.js';
import { TransactionClients } from './clients.js';
import { TROUBLED_MS, type TransactionPlan } from './plan.js';
import { ACCOUNTS } from './requests.js';
import { distributedStores, embeddedStores, type TransactionStores } from './stores.js';
import { TransactionTable } from './table.js';
import { TransactionTroubles } from './troubles.js';

/** From the end of the trouble: the latest message, the longest mark, and the last answers. */
const QUIET_MS = 120_000;
/** Small, so that a list of a few transactions has checkpoints. */
const ID_PAGE = 2;
const LOOK_EVERY_MS = 500;
/** No mark stands any more, and no statement runs. */
const ALL_IS_SETTLED_MS = 10_000;

/** All that a judge may look at. */
export interface TransactionHistory {
  readonly plan: TransactionPlan;
  readonly simulation: Simulation;
  readonly table: TransactionTable;
  readonly hot: readonly Transaction[];
  readonly clients: TransactionClients;
  /** When everything was read a last time; undefined: it never became quiet. */
  readonly lastLookAt: number | undefined;
  readonly bugs: readonly string[];
}

/** A store that is wrong on purpose, for a test of the judge. */
export type Sabotage = (stores: TransactionStores) => void;

/** Carries out a plan: the real cache protocol of several instances, over a store and a cache that misbehave. */
export async function runTransactions(
  plan: TransactionPlan,
  options: { trace?: boolean; sabotage?: Sabotage } = {},
): Promise<TransactionHistory> {
  const { shape } = plan;
  const simulation = new Simulation(plan.seed, options);
  const ambushes = new Ambushes(simulation);
  const table = new TransactionTable(simulation);
  const stores =
    shape.deployment === 'embedded'
      ? embeddedStores(simulation, ambushes, table)
      : distributedStores(simulation, ambushes, table, shape);
  options.sabotage?.(stores);
  const fleet = new Fleet<Transactions>(simulation, shape.instances, async (actor, clock) => {
    const { store, cache } = await stores.open(actor, clock);
    return createTransactions(store, cache, ID_PAGE);
  });

  const hot = Array.from({ length: shape.hot }, (_, index) => {
    const [fromAccount, toAccount] = ACCOUNTS[index % ACCOUNTS.length] as readonly [string, string];
    return stores.create({ fromAccount, toAccount, amount: '100', status: 'PENDING' });
  });
  const clients = new TransactionClients(simulation, fleet, plan, hot);
  const troubles = new TransactionTroubles(simulation, ambushes, fleet, stores, table, hot);
  let lastLookAt: number | undefined;

  function stopWhenDone(): void {
    const settled = simulation.time > simulation.busyUntil + ALL_IS_SETTLED_MS && clients.haveTheirAnswers();
    if (settled && lastLookAt !== undefined) {
      simulation.stop();
      return;
    }
    if (settled) {
      lastLookAt = simulation.time;
      clients.readEverything();
    }
    simulation.after(LOOK_EVERY_MS, undefined, stopWhenDone);
  }

  fleet.start();
  clients.begin();
  troubles.lie(plan.troubles);
  simulation.after(
    TROUBLED_MS,
    undefined,
    () => {
      troubles.end();
      stopWhenDone();
    },
    'the trouble ends',
  );
  await simulation.run(TROUBLED_MS + QUIET_MS);
  fleet.end();
  return { plan, simulation, table, hot, clients, lastLookAt, bugs: fleet.bugs };
}
