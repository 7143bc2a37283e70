import { checkHistory } from '../../testkit/checkers/check-history.js';
import type { KeptPayment } from '../../testkit/checkers/payments.js';
import { exportedPayments, keptPayments } from '../../testkit/client/kept-payments.js';
import { type Clients, Load } from '../../testkit/client/load.js';
import { PROCESSOR_REPLIES } from '../../testkit/history/disturbances.js';
import { History, type Violation } from '../../testkit/history/history.js';
import type { Behaviour } from '../../testkit/processes/reference-processor.js';
import { type Random, seededRandom } from '../../testkit/random.js';
import { patience } from '../../testkit/time/patience.js';
import { pause, until } from '../../testkit/time/until.js';
import { type DeploymentName, type Environment, openEnvironment } from './environment.js';
import { type EnvironmentOptions, type Fault, type Hit, LEASE_MS, PROCESSOR_TIMEOUT_MS } from './fault.js';
import { CrashPoints, faultOrder } from './fault-order.js';
import { chargedAfterMs, OPERATOR_AFTER_MS, Operator } from './operator.js';
import { restoreUnderLoad } from './restores.js';
import { Scraper } from './scraper.js';
import { countFault, countHistory, emptyTally, type Tally } from './tally.js';

/** The longest session, checks included. Each session has fresh stores, so that nothing grows with the run. */
const LONGEST_SESSION_MS = 100_000;
/** The time that opening, healing and checking take of a session. */
const AROUND_MS = { embedded: 30_000, distributed: 50_000 } as const;
/** The time that the last payments of an operator take. */
const OPERATOR_MS = 10_000;
const SHORTEST_FAULTS_MS = 8_000;
const CLIENTS: Clients = { payments: 30, transactions: 10 };
/** Pause between two faults, long enough for payments to be under way again. */
const SHORTEST_CALM_MS = 100;
const LONGEST_CALM_MS = 700;
/** One in this number of rounds has two faults at once. */
const TWO_AT_ONCE = 5;
/** A processor that is slower than its time-out lets no payment succeed at once. It becomes fast after this time. */
const SLOW_FOR_MS = 10_000;
/** After a fault a client must be able to pay within this time, on a busy machine too. */
const BACK_DEADLINE_MS = 120_000;
/** A lease, a recovery period (`src/payments/recovery.ts`), and what a busy machine adds with one slow call to the processor. */
const stuckAfterMs = (deduplicates: boolean) =>
  patience(LEASE_MS + 3_000 + 20_000 + (deduplicates ? 0 : OPERATOR_AFTER_MS + chargedAfterMs()));
const HEALED = { latencyMs: 0, replyLatencyMs: 0, declineRate: 0, failRate: 0, lostReplyRate: 0 };

export interface RunOptions {
  readonly deployment: DeploymentName;
  readonly totalMs: number;
  readonly seed: number;
  /** Ends the run before its time, asked before each fault. */
  readonly isEnough: (tally: Tally) => boolean;
  /** The faults to choose from. */
  readonly only?: (fault: Pick<Fault, 'name' | 'hits'>) => boolean;
  readonly clients?: Clients;
  /** Filled while the run goes on. */
  readonly tally?: Tally;
}

/** Sessions one after the other until the time is over, it is enough, or a promise was broken. */
export async function runFaults(options: RunOptions): Promise<{ tally: Tally; violations: readonly Violation[] }> {
  const { totalMs, isEnough, tally = emptyTally() } = options;
  const crashPoints = new CrashPoints(tally.crashPoints);
  let violations: readonly Violation[] = [];
  const given = { only: () => true, clients: CLIENTS, ...options, tally };
  do violations = await runSession(given, crashPoints);
  while (violations.length === 0 && !isEnough(tally) && totalMs - tally.elapsedMs > SHORTEST_FAULTS_MS);
  return { tally, violations };
}

/** Fresh stores and processes under load and faults, then everything healed and checked. All that is counted goes into the tally. */
async function runSession(options: Required<RunOptions>, crashPoints: CrashPoints): Promise<readonly Violation[]> {
  const { deployment, totalMs, seed, only, clients, tally } = options;
  const startedAt = performance.now();
  const startedAtMs = Date.now();
  const random = seededRandom(seed + tally.sessions);
  // Each kind of processor in two sessions in a row, with the small disk and without; the seed chooses the first kind.
  const deduplicates = (seed + Math.floor(tally.sessions / 2)) % 2 === 0;
  const onSmallDisk = tally.sessions % 2 === 0 && only({ name: 'the disk full', hits: 'disk' });
  const aroundMs = AROUND_MS[deployment] + (deduplicates ? 0 : OPERATOR_MS);
  const leftMs = Math.min(totalMs - tally.elapsedMs, LONGEST_SESSION_MS);
  const faultsMs = Math.max(leftMs - aroundMs, SHORTEST_FAULTS_MS);

  const history = new History();
  const failures: string[] = [];
  const onKilled: EnvironmentOptions['onKilled'] = (what, crashPoint) => {
    tally.sigkills[what] += 1;
    if (crashPoint) tally.crashPoints[crashPoint] = (tally.crashPoints[crashPoint] ?? 0) + 1;
  };
  const onOwnEnd = (sentence: string) => failures.push(sentence);
  const given = { deduplicates, onSmallDisk, history, crashPoints, onKilled, onOwnEnd };
  const environment = await openEnvironment(deployment, given);
  const { services, processor, settings, impossible } = environment;
  if (impossible && !tally.impossible.includes(impossible)) tally.impossible.push(impossible);
  // A step that fails is reported alongside the violations, and does not take their place.
  const attempt = async <T>(what: string, work: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await work();
    } catch (fault) {
      failures.push(`${what}: ${fault instanceof Error ? fault.stack : fault}`);
      return undefined;
    }
  };
  try {
    await Promise.all(services.map((service) => service.up()));
    history.targets = services;
    const load = new Load(history, random, { withOrders: true });
    const operator = new Operator(history, processor, settings.PROCESSOR_URL as string, load.payments, random.fork());
    const scraper = new Scraper(history);
    const collected = new AbortController();
    const collection = attempt('the scrapes', () => scraper.run(services, collected.signal));
    const healReplies = history.disturbances.begin(PROCESSOR_REPLIES);
    const retired = new AbortController();
    const operation = deduplicates ? undefined : attempt('the operator', () => operator.run(retired.signal));
    const underFaults = () => attempt('the faults', () => rounds(options, environment, history, random, faultsMs));
    await attempt('the load', () => load.during(clients, underFaults));
    await attempt('the processor', () => processor.behave(HEALED));
    healReplies();
    await attempt('the healing', () => environment.heal());
    // The machine may be slower while the last payments get their outcomes than it is afterwards.
    const stuckAtHealingMs = stuckAfterMs(deduplicates);
    await attempt('the last requests', () => load.finish());
    retired.abort();
    collected.abort();
    await Promise.all([operation, collection]);

    const shown = await attempt('what is kept', () => Promise.all(services.map((to) => keptPayments(history, to))));
    const exported = await attempt('the export', () => exportedPayments(history, services[0] as never, startedAtMs));
    const charges = await processor.charges();
    const [kept = [], ...others] = shown ?? [];
    const { verdicts } = operator;
    const violations = [
      ...failures.map((what) => violation('nothing fails by itself', what)),
      ...scraper.violations,
      ...checkHistory(history, {
        charges,
        kept,
        leaseMs: LEASE_MS,
        verdicts,
        deduplicates,
        stuckAfterMs: Math.max(stuckAtHealingMs, stuckAfterMs(deduplicates)),
      }),
      ...others.flatMap((other, index) => differences(kept, other, `service ${index + 2}`)),
      // An export is of payments that were carried out.
      ...differences(
        kept.filter(({ state }) => state !== 'CANCELLED'),
        exported ?? [],
        'the export',
      ),
    ];
    if (violations.length === 0) violations.push(...(await restores(options, environment, random)));
    countHistory(tally, history);
    tally.charges += charges.length;
    tally.scrapes += scraper.scrapes;
    tally.verdicts += verdicts.size;
    tally.violations += violations.length;
    tally.elapsedMs += performance.now() - startedAt;
    return violations;
  } finally {
    await environment.close();
    history.close();
  }
}

/** Faults of their own: they remove acknowledged writes, so nothing is compared with the history of the others. */
async function restores(
  { only, tally, deployment }: Required<RunOptions>,
  environment: Environment,
  random: Random,
): Promise<Violation[]> {
  const hits = deployment === 'embedded' ? 'disk' : 'postgres';
  // The processor gets another name in one of two.
  const first = random.below(2);
  const violations: Violation[] = [];
  for (const [index, [way, backUp]] of Object.entries(environment.record.backups).entries()) {
    const isRenamed = (first + index) % 2 === 0;
    const name = `a restore${isRenamed ? ', and the processor under another name' : ''}: ${way}`;
    if (!only({ name, hits })) continue;
    const begunAt = performance.now();
    const broken = await restoreUnderLoad({ backUp, isRenamed }, { ...environment, random }, tally.lost);
    violations.push(...broken.map((each) => ({ ...each, what: `${name}: ${each.what}` })));
    countFault(tally, name, hits, performance.now() - begunAt);
  }
  return violations;
}

async function rounds(
  { only, isEnough, tally }: Required<RunOptions>,
  { services, faults, processor }: Environment,
  history: History,
  random: Random,
  faultsMs: number,
): Promise<void> {
  const order = faultOrder(faults.filter(only), random);
  const end = performance.now() + faultsMs;
  while (performance.now() < end && !isEnough(tally)) {
    await pause(SHORTEST_CALM_MS + random.below(LONGEST_CALM_MS - SHORTEST_CALM_MS));
    await processor.behave(someBehaviour(random));
    const first = order.next().value;
    const second = random.below(TWO_AT_ONCE) === 0 ? order.next().value : undefined;
    const both = second && !isSameTarget(first.hits, second.hits) ? [first, second] : [first];
    const begunAt = performance.now();
    await Promise.all(both.map((fault) => fault.happen(random)));
    await Promise.all(services.map((service) => service.up()));
    const names = both.map(({ name }) => name).join(' and ');
    const isBack = () => history.lastPaymentSentAt > begunAt;
    await until('a payment', SLOW_FOR_MS, isBack).catch(() => processor.behave({ latencyMs: 0 }));
    await until(`a payment after: ${names}`, BACK_DEADLINE_MS, isBack);
    tally.rounds += 1;
    for (const { name, hits } of both) countFault(tally, name, hits, history.lastPaymentSentAt - begunAt);
  }
}

/** How the processor treats the next charges: fast mostly, now and then slower than any service waits. */
function someBehaviour(random: Random): Partial<Behaviour> {
  const isSlow = random.below(6) === 0;
  return {
    latencyMs: isSlow ? random.below(2 * PROCESSOR_TIMEOUT_MS) : random.below(40),
    replyLatencyMs: isSlow ? 0 : random.below(40),
    declineRate: random.fraction() * 0.3,
    failRate: random.fraction() * 0.2,
    lostReplyRate: random.fraction() * 0.2,
  };
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
