import { checkHistory } from '../../testkit/checkers/check-history.js';
import type { KeptPayment } from '../../testkit/checkers/payments.js';
import { exportedPayments, keptPayments } from '../../testkit/client/kept-payments.js';
import { type Clients, Load } from '../../testkit/client/load.js';
import { PROCESSOR_REPLIES } from '../../testkit/history/disturbances.js';
import type { History, Violation } from '../../testkit/history/history.js';
import type { Random } from '../../testkit/random.js';
import { pause, until } from '../../testkit/time/until.js';
import { type Environment, type Fault, type Hit, LEASE_MS, RECOVERY_PERIOD_MS } from './environment.js';
import { FaultOrder } from './fault-order.js';
import { OPERATOR_AFTER_MS, Operator } from './operator.js';
import { someBehaviour } from './process-faults.js';
import { countFault, countHistory, type Tally } from './tally.js';

/** Between two faults: payments are under way again, and then some. */
const SHORTEST_CALM_MS = 100;
const LONGEST_CALM_MS = 700;
/** One in so many rounds has two faults at once. */
const TWO_AT_ONCE = 5;
/** After a fault a client must be able to pay within so long, on a busy machine too. */
const BACK_DEADLINE_MS = 120_000;
/** What a busy machine adds to a lease and a recovery period, with one call to the processor that takes its time. */
const STUCK_SLACK_MS = 20_000;
const HEALED = { latencyMs: 0, replyLatencyMs: 0, declineRate: 0, failRate: 0, lostReplyRate: 0 };

export interface SessionOptions {
  readonly history: History;
  /** Its events go into the history and into `failures`. */
  readonly open: (onOwnEnd: (sentence: string) => void) => Promise<Environment>;
  readonly random: Random;
  /** Faults happen for so long, or until it is over. */
  readonly faultsMs: number;
  readonly isOver: () => boolean;
  /** Which faults are chosen from. */
  readonly only: (fault: Fault) => boolean;
  readonly clients: Clients;
  readonly tally: Tally;
  readonly onProgress: () => void;
}

/** Fresh stores and processes under load and faults, then everything healed and checked. All that is counted goes into the tally. */
export async function runSession(options: SessionOptions): Promise<readonly Violation[]> {
  const { history, random, tally } = options;
  const startedAt = performance.now();
  const startedAtMs = Date.now();
  const failures: string[] = [];
  const environment = await options.open((sentence) => failures.push(sentence));
  const { services, processor, deduplicates } = environment;
  // A step that fails is reported beside the violations, and does not take their place.
  const attempt = async <T>(what: string, work: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await work();
    } catch (fault) {
      failures.push(`${what}: ${fault instanceof Error ? fault.stack : fault}`);
      return undefined;
    }
  };
  try {
    for (const sentence of environment.impossible) {
      if (!tally.impossible.includes(sentence)) tally.impossible.push(sentence);
    }
    await Promise.all(services.map((service) => service.up()));
    history.targets = services;
    const load = new Load(history, random);
    const operator = new Operator(history, processor, load.payments, random.fork());
    const healReplies = history.disturbances.begin(PROCESSOR_REPLIES);
    const retired = new AbortController();
    const operation = deduplicates ? undefined : attempt('the operator', () => operator.run(retired.signal));
    const progress = setInterval(options.onProgress, 500);
    await attempt('the load', () =>
      load.during(options.clients, async () => {
        await attempt('the faults', () => rounds(options, environment));
      }),
    );
    clearInterval(progress);
    await attempt('the processor', () => processor.behave(HEALED));
    healReplies();
    await attempt('the healing', () => environment.heal());
    await attempt('the last requests', () => load.finish());
    retired.abort();
    await operation;

    const shown = await attempt('what is kept', () => Promise.all(services.map((to) => keptPayments(history, to))));
    const exported = await attempt('the export', () => exportedPayments(history, services[0] as never, startedAtMs));
    const charges = await processor.charges();
    const [kept = [], ...others] = shown ?? [];
    const violations = [
      ...failures.map((what) => violation('nothing fails by itself', what)),
      ...checkHistory(history, {
        charges,
        kept,
        leaseMs: LEASE_MS,
        verdicts: operator.verdicts,
        stuckAfterMs: LEASE_MS + RECOVERY_PERIOD_MS + STUCK_SLACK_MS + (deduplicates ? 0 : OPERATOR_AFTER_MS),
      }),
      ...others.flatMap((other, index) => differences(kept, other, `service ${index + 2}`)),
      ...differences(kept, exported ?? [], 'the export'),
    ];
    countHistory(tally, history);
    tally.charges += charges.length;
    tally.verdicts += operator.verdicts.size;
    tally.violations += violations.length;
    tally.elapsedMs += performance.now() - startedAt;
    return violations;
  } finally {
    await environment.close();
    history.close();
  }
}

async function rounds(options: SessionOptions, { faults, processor }: Environment): Promise<void> {
  const { history, random, faultsMs, isOver, tally } = options;
  const order = new FaultOrder(faults.filter(options.only), random);
  const end = performance.now() + faultsMs;
  while (performance.now() < end && !isOver()) {
    await pause(SHORTEST_CALM_MS + random.below(LONGEST_CALM_MS - SHORTEST_CALM_MS));
    await processor.behave(someBehaviour(random));
    const first = order.next();
    const second = random.below(TWO_AT_ONCE) === 0 ? order.next() : undefined;
    const both = second && !isSameTarget(first.hits, second.hits) ? [first, second] : [first];
    const begunAt = performance.now();
    await Promise.all(both.map((fault) => fault.happen(random)));
    const names = both.map(({ name }) => name).join(' and ');
    await until(`a payment after: ${names}`, BACK_DEADLINE_MS, () => history.lastPaymentSentAt > begunAt);
    tally.rounds += 1;
    for (const { name, hits } of both) countFault(tally, name, hits, history.lastPaymentSentAt - begunAt);
  }
}

/** Two faults that would both start the same process again. */
function isSameTarget(one: Hit, other: Hit): boolean {
  const both = [one, other];
  return one === other || (both.includes('service') && both.includes('processor'));
}

/** Every process, and the export, must show the same payments. */
function differences(one: readonly KeptPayment[], other: readonly KeptPayment[], where: string): Violation[] {
  const texts = (payments: readonly KeptPayment[]) => new Set(payments.map((payment) => JSON.stringify(payment)));
  const [ours, theirs] = [texts(one), texts(other)];
  const different = [...ours].filter((text) => !theirs.has(text)).concat([...theirs].filter((text) => !ours.has(text)));
  if (different.length === 0) return [];
  const what = `service 1 shows ${one.length}, ${where} shows ${other.length}; different: ${different.slice(0, 2)}`;
  return [violation('every process and the export show the same payments', what)];
}

function violation(rule: string, what: string): Violation {
  return { rule, subject: 'the environment', what, history: [] };
}
