import type { Transaction } from '#idempay/transactions/transaction.js';
import { createTransactions, type Transactions } from '#idempay/transactions/transactions.js';
import { createFaults } from '../faults.js';
import { createWorld, type Sabotage } from '../world.js';
import { accountsOf, createTransactionClients } from './clients.js';
import { FAULTS_END_MS, type TransactionPlan } from './plan.js';

/** From the end of the faults: the latest message, the longest mark, and the last answers. */
const QUIET_MS = 120_000;
/** Small, so that a list of a few transactions has checkpoints. */
const ID_PAGE = 2;
const LOOK_EVERY_MS = 500;
/** No mark stands any more, and no statement runs. */
const ALL_IS_SETTLED_MS = 10_000;

export type TransactionHistory = Awaited<ReturnType<typeof runTransactions>>;

/** Carries out a plan: the real cache protocol of several processes, over a store and a cache that fail. */
export async function runTransactions(plan: TransactionPlan, how: readonly [trace: boolean, Sabotage]) {
  const { shape } = plan;
  const world = createWorld<Transactions>(plan, how, shape, ({ transactions, transactionCache, close }) => {
    const service = createTransactions(transactions, transactionCache, { idPage: ID_PAGE });
    return { service, stop: async () => {}, cut() {}, end: close };
  });
  const { simulation, processes, stores } = world;
  const hot: Transaction[] = [];
  while (hot.length < shape.hot) {
    hot.push(await stores.create({ ...accountsOf(hot.length), amount: '100', status: 'PENDING' }));
  }
  const clients = createTransactionClients(world, plan, hot);
  const nameOf = (index: number) => String(hot[index]?.id);
  const faults = createFaults(world, { endMs: FAULTS_END_MS, leaseMs: 0, nameOf });
  let lastLookAt: number | undefined;

  async function untilSettled(): Promise<void> {
    const isSettled = () => simulation.time > simulation.busyUntil + ALL_IS_SETTLED_MS && clients.haveTheirAnswers();
    while (!isSettled()) await simulation.wait(LOOK_EVERY_MS);
  }

  async function endFaults(): Promise<void> {
    faults.end();
    await untilSettled();
    lastLookAt = simulation.time;
    clients.readEverything();
    await simulation.wait(LOOK_EVERY_MS);
    await untilSettled();
    simulation.stop();
  }

  processes.start();
  clients.begin();
  faults.plan(plan);
  simulation.after(FAULTS_END_MS, undefined, endFaults, 'the faults end');
  await simulation.run(FAULTS_END_MS + QUIET_MS);
  processes.end();
  stores.close();
  return { plan, simulation, table: stores.transactions, hot, clients, lastLookAt, bugs: processes.bugs };
}
