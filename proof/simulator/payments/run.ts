import { StoreUnavailable } from '#idempay/faults.js';
import { createPaymentArea, type PaymentArea } from '#idempay/payments/payment-area.js';
import type { PaymentHistory as PaymentReads } from '#idempay/payments/ports/payment-history.js';
import { backOffMs } from '#idempay/payments/recovery.js';
import { Ambushes } from '../ambushes.js';
import { Fleet, type OpenService } from '../fleet.js';
import { type Actor, Simulation } from '../simulation.js';
import { PaymentClients } from './clients.js';
import { type PaymentPlan, TROUBLED_MS } from './plan.js';
import { createSimulatedRemoteProcessor, LATEST_ARRIVAL_TIMEOUTS, ProcessorMachine } from './processor.js';
import { distributedStores, embeddedStores, type PaymentStores } from './stores.js';
import { PaymentTroubles } from './troubles.js';

const PROCESSOR = 'the-processor';
/** From the end of the trouble: the longest lease, the longest back-off, some rounds of recovery, and the last answers. */
const QUIET_MS = 300_000;
/** In the quiet, whether anything is left to happen is looked at this often. */
const LOOK_EVERY_MS = 500;
const OPERATOR_EVERY_MS = 2_000;
/** Where nothing is promised, a processor that forgets still knows a reference this long. */
const SHORT_MEMORY_MS = 5_000;

/** All that a judge may look at. */
export interface PaymentHistory {
  readonly plan: PaymentPlan;
  readonly simulation: Simulation;
  readonly stores: PaymentStores;
  readonly processor: ProcessorMachine;
  readonly clients: PaymentClients;
  readonly troubles: PaymentTroubles;
  readonly bugs: readonly string[];
}

/** A service that is wrong on purpose, for a test of the judge. */
export type Sabotage = (stores: PaymentStores) => void;

/** Carries out a plan: the real payment code of several instances, over stores and a processor that misbehave. */
export async function runPayments(
  plan: PaymentPlan,
  options: { trace?: boolean; sabotage?: Sabotage } = {},
): Promise<PaymentHistory> {
  const simulation = new Simulation(plan.seed, options);
  const ambushes = new Ambushes(simulation);
  const { shape } = plan;
  const openService: OpenService<PaymentArea> = (actor, clock) => open(actor, clock);
  const fleet = new Fleet<PaymentArea>(simulation, shape.instances, openService);
  const stores =
    shape.deployment === 'embedded'
      ? embeddedStores(simulation, ambushes, fleet.walls[0] ?? { aheadMs: 0 })
      : distributedStores(simulation, ambushes);
  options.sabotage?.(stores);
  const processor = new ProcessorMachine(simulation, promiseOf(plan));
  const clients = new PaymentClients(simulation, fleet, stores.rows, plan);
  const troubles = new PaymentTroubles(simulation, ambushes, fleet, stores, processor, clients, shape.leaseMs);
  let transactionIds = 0;

  async function open(...[actor, clock]: Parameters<OpenService<PaymentArea>>): Promise<PaymentArea> {
    const { keys, ledger } = await stores.open(actor, clock);
    let owners = 0;
    const settings = { name: PROCESSOR, timeoutMs: shape.processorTimeoutMs, dedupMs: shape.dedupMs };
    const area = createPaymentArea({
      keys,
      ledger,
      history: readsOf(actor),
      processor: createSimulatedRemoteProcessor(simulation, ambushes, processor, actor, settings),
      rules: {
        idempotencyTtlMs: shape.idempotencyTtlMs,
        leaseMs: shape.leaseMs,
        payloadMismatch: shape.payloadMismatch,
        maxInFlight: shape.maxInFlight ?? 10_000,
        dedupMs: shape.dedupMs,
      },
      recoverAfterMs: backOffMs,
      clock,
      newKey: () => clients.keyOfWhoeverAsks,
      newTransactionId: () => `TXN${++transactionIds}`,
      newOwner: () => `${actor.name}:${++owners}`,
      events: {
        fault: (fault) => void (fault instanceof StoreUnavailable || fleet.bugs.push(String(fault))),
        unknown({ key }, cause) {
          simulation.count('outcomes unknown');
          simulation.note(simulation.tracing ? `${actor.name}: ${key} stays unknown: ${cause}` : '');
        },
        unseen: () => simulation.count('gaps in the time of retention'),
        contradiction: () => simulation.count('contradictions told'),
        overdue: () => simulation.count('alarms for an operator'),
      },
    });
    area.recovery.start(0).catch((fault: unknown) => fleet.bugs.push(`recovery: ${fault}`));
    return area;
  }

  /** Only whoever resolves a payment looks at it; the judge sees the rows themselves. */
  function readsOf(actor: Actor): PaymentReads {
    return {
      find: (key) =>
        stores.lines.ledger.read(actor, 'shows', key, () => {
          const row = stores.rows.byKey.get(key);
          return row && { ...row, attempts: row.epoch, settledAt: row.finalAt };
        }),
      newest: async () => [],
      settled: async () => ({ payments: [], next: undefined }),
    };
  }

  /** Whatever no attempt may finish any more is an operator's. */
  function work(): void {
    for (const { key, state } of stores.rows.byKey.values()) if (state === 'PROCESSING') troubles.resolve(key);
    simulation.after(OPERATOR_EVERY_MS, undefined, work);
  }

  function stopWhenDone(): void {
    const done = simulation.time > simulation.busyUntil && clients.haveTheirAnswers() && everythingIsFinal();
    if (done) simulation.stop();
    else simulation.after(LOOK_EVERY_MS, undefined, stopWhenDone);
  }

  function everythingIsFinal(): boolean {
    for (const { state } of stores.rows.byKey.values()) if (state === 'PROCESSING') return false;
    return true;
  }

  fleet.start();
  clients.begin();
  troubles.lie(plan.troubles);
  if (shape.eagerOperator) work();
  simulation.after(
    TROUBLED_MS,
    undefined,
    () => {
      troubles.end();
      clients.askAgain();
      if (!shape.eagerOperator) work();
      stopWhenDone();
    },
    'the trouble ends',
  );
  await simulation.run(TROUBLED_MS + QUIET_MS);
  fleet.end();
  return {
    plan,
    simulation,
    stores,
    processor,
    clients,
    troubles,
    bugs: [...fleet.bugs, ...stores.rows.broken],
  };
}

/**
 * A reference comes again at the latest when its time has run out by the ledger's clock, and its last message is late; a
 * clock that was set back meanwhile lengthens that (the margin that `docs/deployment.md` asks for).
 */
function promiseOf({ shape, troubles }: PaymentPlan) {
  const { dedupMs, processorTimeoutMs, forgetful } = shape;
  const lateMs = (LATEST_ARRIVAL_TIMEOUTS + 1) * processorTimeoutMs;
  const promisedMs = dedupMs === 0 ? 0 : dedupMs + lateMs + setBackMs(troubles);
  return { dedupMs: promisedMs, remembersMs: forgetful ? Math.max(promisedMs, SHORT_MEMORY_MS) : Infinity };
}

/** How far the ledger's clock is set back in all. */
export function setBackMs(troubles: PaymentPlan['troubles']): number {
  let backMs = 0;
  for (const trouble of troubles) {
    if (trouble.kind === 'clock' && trouble.of === 'ledger') backMs += Math.max(0, -trouble.aheadMs);
  }
  return backMs;
}
