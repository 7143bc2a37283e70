import { judgeLists } from '../../testkit/checkers/list-rules.js';
import type { KeptPayment, Period, Violation } from '../../testkit/checkers/payment-evidence.js';
import { judgePayments } from '../../testkit/checkers/payment-rules.js';
import { judgeSharedLists } from '../../testkit/checkers/shared-list-rules.js';
import { judgeTransactions } from '../../testkit/checkers/transaction-rules.js';
import { PaymentClients } from '../../testkit/client/payment-clients.js';
import { TransactionClients } from '../../testkit/client/transaction-clients.js';
import { ClientLog } from '../../testkit/history/client-log.js';
import { someBehaviour } from '../../testkit/processes/kill-faults.js';
import type { Random } from '../../testkit/random.js';
import { pause, until } from '../../testkit/time/until.js';
import { BlowOrder } from './blow-order.js';
import { keptPayments } from './kept-payments.js';
import { OPERATOR_AFTER_MS, Operator } from './operator.js';
import {
  type Blow,
  LEASE_MS,
  PROCESSOR_TIMEOUT_MS,
  RECOVERY_PERIOD_MS,
  type Scene,
  type SceneEvents,
} from './scene.js';
import type { Tally } from './tally.js';

const PAYMENT_CLIENTS = 30;
const TRANSACTION_CLIENTS = 10;
/** Between two blows: payments are under way again, and then some. */
const SHORTEST_CALM_MS = 100;
const LONGEST_CALM_MS = 700;
/** One in so many rounds has two blows at once. */
const TWO_AT_ONCE = 5;
/** After a blow somebody must be able to pay within so long, on a busy machine too. */
const BACK_DEADLINE_MS = 30_000;
/** What a busy machine adds to a lease and a recovery period, with one call to the processor that takes its time. */
const STUCK_SLACK_MS = 5_000;
const FINISH_DEADLINE_MS = 30_000;
/** Outcomes that each process is asked for once more at the end; all are held against the charges. */
const REPEATED = 1_000;
const HEALED = { latencyMs: 0, replyLatencyMs: 0, declineRate: 0, failRate: 0, lostReplyRate: 0 };

export interface SessionOptions {
  readonly open: (events: SceneEvents) => Promise<Scene>;
  readonly random: Random;
  /** Blows fall for so long, or until it is over. */
  readonly blowsMs: number;
  readonly isOver: () => boolean;
  readonly tally: Tally;
  readonly onProgress: (log: ClientLog) => void;
}

/** What a session leaves for whoever looks into its violations. */
export interface SessionResult {
  readonly violations: readonly Violation[];
  readonly seconds: number;
}

/** Fresh stores and processes under load and blows, then everything healed and judged. All that is counted goes into the tally. */
export async function runSession(options: SessionOptions): Promise<SessionResult> {
  const { random, tally } = options;
  const startedAt = performance.now();
  const disturbances: Period[] = [];
  const forgettings: Period[] = [];
  const failures: string[] = [];
  const begin = (...lists: Period[][]) => {
    const period = { from: performance.now(), to: Number.POSITIVE_INFINITY };
    for (const list of lists) list.push(period);
    return {
      ended() {
        period.to = performance.now();
      },
    };
  };
  const scene = await options.open({
    killed(what, crashPoint) {
      tally.sigkills[what] += 1;
      if (crashPoint) tally.crashPoints[crashPoint] = (tally.crashPoints[crashPoint] ?? 0) + 1;
      begin(disturbances).ended();
    },
    disturbing: () => begin(disturbances),
    forgetting: () => begin(disturbances, forgettings),
    reached: () => tally.crashPoints,
    failed: (sentence) => failures.push(sentence),
  });
  try {
    for (const sentence of scene.impossible) if (!tally.impossible.includes(sentence)) tally.impossible.push(sentence);
    await Promise.all(scene.services.map((service) => service.up()));
    const log = new ClientLog(scene.services);
    const payments = new PaymentClients(log, random.fork());
    const transactions = new TransactionClients(log, random.fork());
    const operator = new Operator(log, scene.processor, () => payments.openKeys(), random.fork());
    const attempt = async <T>(what: string, work: () => Promise<T>): Promise<T | undefined> => {
      try {
        return await work();
      } catch (fault) {
        failures.push(`${what}: ${fault instanceof Error ? fault.stack : fault}`);
        return undefined;
      }
    };
    const stop = new AbortController();
    const load = attempt('the load', () =>
      Promise.all([payments.run(PAYMENT_CLIENTS, stop.signal), transactions.run(TRANSACTION_CLIENTS, stop.signal)]),
    );
    const retired = new AbortController();
    const operation = attempt('the operator', async () => {
      if (!scene.deduplicates) await operator.run(retired.signal);
    });
    const progress = setInterval(() => options.onProgress(log), 500);
    await attempt('the blows', () => rounds(options, scene, log));
    clearInterval(progress);
    stop.abort();
    await load;

    // Whatever fails from here on is told beside the verdict, and does not take its place.
    await attempt('the processor', () => scene.processor.behave(HEALED));
    await attempt('the healing', () => scene.heal());
    await attempt('the last payments', () => payments.finish(FINISH_DEADLINE_MS));
    retired.abort();
    await operation;
    await attempt('the last reads', () => transactions.readAll());
    await attempt('the last repeats', () => payments.repeat(REPEATED));
    const kept = await attempt('what is kept', () =>
      Promise.all(scene.services.map((service) => keptPayments(service.pool))),
    );
    const charges = await scene.processor.charges();
    const violations = [
      ...failures.map(
        (what): Violation => ({ rule: 'nothing fails by itself', subject: 'the scene', what, journal: [] }),
      ),
      ...log.violations,
      ...(kept ?? []).slice(0, 1).flatMap((shown) =>
        judgePayments({
          keys: log.keys,
          charges,
          kept: shown,
          forgettings,
          disturbances,
          verdicts: operator.verdicts,
          leaseMs: LEASE_MS,
          stuckAfterMs: LEASE_MS + RECOVERY_PERIOD_MS + STUCK_SLACK_MS + (scene.deduplicates ? 0 : OPERATOR_AFTER_MS),
        }),
      ),
      ...(kept ?? []).slice(1).flatMap((other, index) => differences(kept?.[0] ?? [], other, index + 2)),
      ...judgeTransactions(log.transactions),
      ...judgeLists(log.lists),
      ...judgeSharedLists(log.sharedLists),
    ];
    count(tally, log, charges.length, operator.verdicts.size, violations.length);
    tally.elapsedMs += performance.now() - startedAt;
    return { violations, seconds: (performance.now() - startedAt) / 1_000 };
  } finally {
    await scene.close();
  }
}

async function rounds({ random, blowsMs, isOver, tally }: SessionOptions, scene: Scene, log: ClientLog): Promise<void> {
  const order = new BlowOrder(scene.blows, random);
  const end = performance.now() + blowsMs;
  while (performance.now() < end && !isOver()) {
    await pause(SHORTEST_CALM_MS + random.below(LONGEST_CALM_MS - SHORTEST_CALM_MS));
    await scene.processor.behave(someBehaviour(random, PROCESSOR_TIMEOUT_MS));
    const first = order.next();
    const second = random.below(TWO_AT_ONCE) === 0 ? order.next() : undefined;
    const both = second && second.hits !== first.hits && !isSameTarget(first, second) ? [first, second] : [first];
    const struckAt = performance.now();
    await Promise.all(both.map((blow) => blow.strike(random)));
    const names = both.map(({ name }) => name).join(' and ');
    await until(`a payment after: ${names}`, BACK_DEADLINE_MS, () => log.lastPaymentSentAt > struckAt);
    const awayMs = log.lastPaymentSentAt - struckAt;
    tally.rounds += 1;
    for (const { name, hits } of both) {
      tally.blows[name] ??= { hits, count: 0, longestAwayMs: 0 };
      const counted = tally.blows[name];
      counted.count += 1;
      counted.longestAwayMs = Math.max(counted.longestAwayMs, awayMs);
    }
  }
}

/** Two blows that would both start the same process again. */
function isSameTarget(one: Blow, other: Blow): boolean {
  const both = [one.hits, other.hits];
  return both.includes('service') && both.includes('processor');
}

/** Every process must show the same payments. */
function differences(one: readonly KeptPayment[], other: readonly KeptPayment[], number: number): Violation[] {
  if (JSON.stringify(one) === JSON.stringify(other)) return [];
  const what = `service 1 shows ${one.length}, service ${number} shows ${other.length}, or others`;
  return [{ rule: 'every process shows the same payments', subject: `service ${number}`, what, journal: [] }];
}

function count(tally: Tally, log: ClientLog, charges: number, verdicts: number, violations: number): void {
  tally.sessions += 1;
  tally.verdicts = (tally.verdicts ?? 0) + verdicts;
  tally.requests += log.requests;
  tally.reads += log.reads;
  tally.writes += log.writes;
  tally.notModified += log.notModified;
  tally.keys += log.keys.length;
  tally.charges += charges;
  tally.violations += violations;
  for (const [status, times] of log.answers) tally.answers[status] = (tally.answers[status] ?? 0) + times;
  for (const { sends, finishedAfterMs } of log.keys) {
    if (!sends.some(({ outcome }) => outcome) && sends.some(({ status }) => status === 400)) tally.forgottenKeys += 1;
    tally.longestStuckMs = Math.max(tally.longestStuckMs, finishedAfterMs ?? 0);
  }
}
