import { createPaymentArea } from '#idempay/payments/payments.js';
import { createSimulatedProcessor as createProductsProcessor } from '#idempay/payments/processors/simulated.js';
import { backOffMs } from '#idempay/payments/recovery.js';
import type { Clock } from '#idempay/platform/clock.js';
import { StoreUnavailable } from '#idempay/platform/faults.js';
import { createFaults, setBackMs } from '../faults.js';
import type { Opened } from '../processes.js';
import type { Process } from '../simulation.js';
import type { SimulatedPorts } from '../stores.js';
import { createWorld, type Sabotage } from '../world.js';
import { createPaymentClients } from './clients.js';
import { missingIn, untoldOf } from './feed-checker.js';
import { createFeedReader } from './feed-reader.js';
import { computeKey, computeRefundKey, keyOf } from './keys.js';
import { FAULTS_END_MS, type PaymentPlan } from './plan.js';
import { createSimulatedProcessor, LATEST_AFTER_LOSS_TIMEOUTS, LATEST_ARRIVAL_TIMEOUTS } from './processor.js';
import { createSimulatedReceivers, type ServedWebhooks } from './receivers.js';

/** From the end of the faults: the longest lease, the longest back-off, some rounds of recovery, and the last answers. */
const QUIET_MS = 300_000;
/**
 * After that no client asks again, and the last answers have this long: the longest patience of a client, and the calls of its request. A
 * refund that nobody can decide within the history is asked for until then, because its lost row had another amount.
 */
const LAST_ANSWERS_MS = 20_000;
/** Receivers refuse some messages so long after the faults that these are set aside; the next try may come as long after that again. */
const REFUSED_MS = 70_000;
const TOLD_WITHIN_MS = 220_000;
/** In the quiet, whether anything is left to happen is looked at this often. */
const LOOK_EVERY_MS = 500;
const OPERATOR_EVERY_MS = 2_000;
/** If nothing is promised, a processor that forgets still knows a reference this long. */
const SHORT_MEMORY_MS = 5_000;
/** Two payments in a hundred meet a statement that takes long. */
const SLOW_COMMITS = 0.02;
/** In a history with retention the processes stand still this long and this often once all is final, with clients between. */
const STILL_MS = 3_660_000;
const STILL_TIMES = 6;
const AWAKE_MS = 150_000;
const MONTH_MS = 30 * 24 * 3_600_000;

export type PaymentHistory = Awaited<ReturnType<typeof runPayments>>;

/** Carries out a plan: the real payment code of several processes, over stores and a processor that fail. */
export async function runPayments(plan: PaymentPlan, how: readonly [trace: boolean, Sabotage]) {
  const { shape } = plan;
  const { leaseMs, idempotencyTtlMs, dedupMs, payloadMismatch, maxInFlight, retentionMs } = shape;
  const settings = { slowCommits: SLOW_COMMITS, transactionCacheTtlMs: 1_000 };
  const world = createWorld<ServedWebhooks>(plan, how, settings, open);
  const { simulation, processes, stores } = world;
  const processor = createSimulatedProcessor(world, promiseOf(plan));
  const clients = createPaymentClients(world, plan);
  const feeds = (shape.readers ?? []).map((reader, number) => createFeedReader(world, reader, number));
  const receivers = createSimulatedReceivers(world, shape.endpoints ?? [], FAULTS_END_MS + REFUSED_MS);
  /** When an operator first decided about a payment. */
  const verdicts = new Map<string, number>();
  const nameOf = (subject: number) => receivers.endpoints[-1 - subject]?.name ?? `k${subject}`;
  const faults = createFaults(world, {
    ...{ endMs: FAULTS_END_MS, leaseMs, nameOf, processor, receivers },
    resolve: (client) => resolve(nameOf(client)),
    restored: () => clients.askAfterLoss(),
  });
  let transactionIds = 0;

  function open(ports: SimulatedPorts, process: Process, clock: Clock): Opened<ServedWebhooks> {
    const remote = shape.isCertain
      ? createProductsProcessor(0)
      : processor.connect(process, {
          name: 'the-processor',
          formerNames: [],
          typicalMs: 50,
          timeoutMs: shape.processorTimeoutMs,
          dedupMs,
        });
    let owners = 0;
    const service = createPaymentArea({
      ...{
        keys: ports.keys,
        ledger: ports.ledger,
        refunds: ports.refunds,
        history: ports.paymentHistory,
        settlements: ports.settlements,
        processor: remote,
      },
      rules: { idempotencyTtlMs, leaseMs, payloadMismatch, maxInFlight, dedupMs, retentionMs },
      recoverAfterMs: backOffMs,
      clock,
      keyClock: ports.clock,
      newKey: (atMs) => keyOf(clients.askingForKey(), atMs),
      computeKey,
      computeRefundKey,
      newTransactionId: () => `TXN${++transactionIds}`,
      newOwner: () => `${process.name}:${++owners}`,
      events: {
        fault: (fault) => void (fault instanceof StoreUnavailable || processes.bugs.push(String(fault))),
        unknown({ transactionId }, cause) {
          simulation.count('outcomes unknown');
          simulation.note(`${process.name}: ${transactionId} stays unknown: ${cause}`);
        },
        unseen: () => simulation.count('gaps in the time of retention'),
        contradiction: () => simulation.count('contradictions reported'),
        forgotten: () => simulation.count('pending payments forgotten by the processor'),
        overdue: () => simulation.count('alarms for an operator'),
      },
    });
    const { recovery, retention, waiting, lockEnds, settlementFeed } = service;
    const bug = (fault: unknown) => void processes.bugs.push(`background: ${fault}`);
    recovery.start(0).catch(bug);
    retention.start().catch(bug);
    const webhooks =
      receivers.endpoints.length > 0
        ? receivers.connect(process, ports, settlementFeed, clock, processes.bugs)
        : undefined;
    return {
      service: { ...service, endpointRows: ports.endpointRows },
      stop() {
        waiting.end();
        settlementFeed.close();
        return Promise.all([recovery.stop(), retention.stop(), webhooks?.stop()]).catch(bug);
      },
      cut: () => remote.close(),
      async end() {
        await lockEnds.stop();
        remote.close();
        await ports.close();
      },
    };
  }

  const unfinished = () => [...stores.payments.byKey.values()].filter(({ state }) => state === 'PROCESSING');

  /** An operator asks the processor, and resolves the payment if its result cannot change any more. */
  async function resolve(name: string): Promise<void> {
    const state = processor.verdictOn(name);
    const row = stores.payments.byKey.get(name);
    const uuid = row?.refund_of ? row.claimed.key : clients.issued.find(({ key }) => key === name)?.uuid;
    if (state === undefined || uuid === undefined) return;
    if (!verdicts.has(name)) verdicts.set(name, simulation.time);
    const random = simulation.rng(`operator ${name}`);
    const verdict = { state, reason: 'the operator asked the processor' };
    const at = random.below(processes.size);
    const answer = await processes.call(at, random, `resolve ${name} as ${state}`, ({ records }) =>
      records.resolve(uuid, verdict),
    );
    simulation.note(typeof answer === 'string' ? answer : `the operator hears: ${answer.state}`);
  }

  /** The operator tries again and again to resolve every unfinished payment. */
  async function work(): Promise<void> {
    for (;;) {
      for (const { key } of unfinished()) resolve(key);
      await receivers.startAll();
      if (simulation.time > FAULTS_END_MS + REFUSED_MS) await receivers.resendAll();
      await simulation.wait(OPERATOR_EVERY_MS);
    }
  }

  /** Until everything is final, and has reached the readers and receivers, or for long enough. */
  async function untilDone(): Promise<void> {
    const history = { feeds, receivers, stores, faults, openSince: () => processes.openSince() };
    const isBusy = () => simulation.time <= simulation.busyUntil || !clients.haveTheirAnswers();
    const isUntold = () => receivers.endpoints.some((endpoint) => untoldOf(endpoint, history).length > 0);
    const unread = () => feeds.filter((feed) => missingIn(feed, history).length > 0);
    const toldBy = simulation.time + TOLD_WITHIN_MS;
    // A process whose pause ends with the faults wakes now, and has not heard of anything yet.
    do {
      await simulation.wait(LOOK_EVERY_MS);
      for (const feed of unread()) await feed.catchUp();
    } while (isBusy() || unfinished().length > 0 || (simulation.time < toldBy && (isUntold() || unread().length > 0)));
  }

  async function stopWhenDone(): Promise<void> {
    await untilDone();
    if (retentionMs !== undefined) {
      await standStill();
      await untilDone();
    }
    simulation.stop();
  }

  /**
   * Hours pass in a few steps. One clock jumps ahead and another one back, which must not cause a removal. A process that a fault has ended
   * must be there again before: it could not be stopped, and would work alone for an hour, which takes more steps than a history may have.
   */
  async function standStill(): Promise<void> {
    for (let times = 1; times <= STILL_TIMES; times += 1) {
      while (!processes.areAlive()) await simulation.wait(LOOK_EVERY_MS);
      if (times === 2) faults.moveClock('postgres', MONTH_MS);
      if (times === 3) faults.moveClock(0, -MONTH_MS / 2);
      for (const index of processes.indexes) processes.pause(index, STILL_MS, times % 2 === 0);
      simulation.after(STILL_MS, undefined, () => clients.comeBack(), 'the processes go on');
      await simulation.wait(STILL_MS + AWAKE_MS);
    }
  }

  processes.start();
  clients.begin();
  faults.plan(plan);
  for (const feed of feeds) feed.follow();
  if (shape.eagerOperator) work();
  const endFaults = () => {
    faults.end();
    clients.askAgain();
    if (!shape.eagerOperator) work();
    stopWhenDone();
  };
  simulation.after(FAULTS_END_MS, undefined, endFaults, 'the faults end');
  const hoursMs = retentionMs === undefined ? 0 : STILL_TIMES * (STILL_MS + AWAKE_MS) + AWAKE_MS;
  const endMs = FAULTS_END_MS + QUIET_MS + hoursMs;
  await simulation.run(endMs);
  clients.stopAsking();
  await simulation.run(endMs + LAST_ANSWERS_MS);
  const openSince = processes.openSince();
  processes.end();
  const setAside = new Map(receivers.endpoints.map(({ name }) => [name, receivers.setAsideNow(name)]));
  stores.close();
  const bugs = [...processes.bugs, ...stores.payments.broken];
  const told = {
    feeds,
    receivers: { ...receivers, setAsideNow: (name: string) => setAside.get(name) ?? new Set<string>() },
  };
  return {
    ...{ plan, simulation, stores, processor, clients, faults, verdicts, bugs },
    ...told,
    openSince: () => openSince,
  };
}

/**
 * A reference comes again at the latest when its time has run out by the ledger's clock, and its last message is late. A clock that was set
 * back meanwhile lengthens that (the margin that `docs/operations/deployment.md` asks for).
 */
function promiseOf(plan: PaymentPlan) {
  const { dedupMs, processorTimeoutMs, forgetful, loss, waits } = plan.shape;
  const latestTimeouts = loss ? LATEST_AFTER_LOSS_TIMEOUTS : LATEST_ARRIVAL_TIMEOUTS;
  const lateMs = (latestTimeouts + 1) * processorTimeoutMs;
  const promisedMs = dedupMs === 0 ? 0 : dedupMs + lateMs + setBackMs(plan);
  const remembersMs = forgetful ? Math.max(promisedMs, SHORT_MEMORY_MS) : Infinity;
  return { dedupMs: promisedMs, remembersMs, tellsAmounts: loss?.tellsAmounts ?? true, latestTimeouts, waits };
}
