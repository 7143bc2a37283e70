import { alongside, inParallel } from '../../testkit/concurrency.js';
import type { ReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { SupervisedService } from '../../testkit/processes/supervised-service.js';
import type { Random } from '../../testkit/random.js';
import type { RedisServer } from '../../testkit/servers/redis.js';
import { pause } from '../../testkit/time/until.js';
import { isSettled, isSuccess, type Payers, type Payment, type Scenario } from './payers.js';

/** The time-out of a call to the processor, the same for every server. */
export const PROCESSOR_TIMEOUT_MS = 2_000;

const DUPLICATES = { keys: 200, copies: 5, keysAtOnce: 20 };
const CRASHES = { rounds: 10, clients: 12, payments: 600, longestMs: 700 };
const LOST = 20;
/** Longer than a request may take, so that one that waits for Redis is seen to hang. */
const AWAY = { forMs: 12_000, afterMs: 3_000, clients: 8, payments: 1_200 };
const FLUSHED = { inFlight: 40, paid: 40, afterMs: 700, latencyMs: 1_500 };
const OTHER_BODIES = 10;
/** Of one client, before it leaves a payment for the end. */
const SENDS = 6;
const PAUSE_MS = 120;
/** At the end everything is up, and what has no outcome yet is repeated for so long. */
export const PATIENCE_MS = 60_000;
const REPEAT_EVERY_MS = 2_000;

export interface Environment {
  readonly payers: Payers;
  readonly servers: readonly SupervisedService[];
  readonly processor: ReferenceProcessor;
  readonly redis: RedisServer | undefined;
  readonly random: Random;
}

/** From when to when, since the trial began. */
export type Window = readonly [fromMs: number, toMs: number];

/** When Redis was away. */
export interface Outages {
  readonly killed?: Window;
  readonly stopped?: Window;
}

/**
 * The same for every server, in the same order. `onSettled` is called when all payments have an outcome, or everything has
 * been up for PATIENCE_MS: before Redis loses everything, because no key is locked after that.
 */
export async function runScenarios(environment: Environment, onSettled: () => Promise<void>): Promise<Outages> {
  const { redis } = environment;
  await duplicates(environment);
  await otherBodies(environment);
  const outages = redis ? await redisAway(environment, redis) : {};
  await lostReplies(environment);
  await crashes(environment);
  await untilSettled(environment);
  await onSettled();
  if (redis) await flushed(environment, redis);
  return outages;
}

async function duplicates(environment: Environment): Promise<void> {
  const { payers, servers, processor } = environment;
  await processor.behave({ latencyMs: 20 });
  const payments = await payers.issue('duplicates', DUPLICATES.keys);
  const atOnce = (task: (payment: Payment) => Promise<unknown>) =>
    inParallel(payments.length, DUPLICATES.keysAtOnce, (index) => task(payments[index] as Payment));
  await atOnce((payment) => {
    const copies = Array.from({ length: DUPLICATES.copies }, (_, copy) => servers[copy % servers.length]);
    return Promise.all(copies.map((server) => payers.send(payment, server as SupervisedService)));
  });
  await atOnce((payment) => payPatiently(environment, payment));
}

/** A process is killed at a random moment, again and again, while clients pay; the next one is started at once. */
async function crashes(environment: Environment): Promise<void> {
  const { payers, servers, processor, random } = environment;
  await processor.behave({ latencyMs: 40, replyLatencyMs: 40 });
  const isGivenUp = (payment: Payment) =>
    payment.scenario === 'crash' && payment.answers.length >= SENDS && !isSettled(payment);
  const comeBack = async () => {
    await pause(REPEAT_EVERY_MS / 2);
    await sendEach(environment, payers.payments.filter(isGivenUp));
  };
  await underLoad(environment, 'crash', CRASHES, () =>
    alongside(1, comeBack, async () => {
      for (let round = 0; round < CRASHES.rounds; round += 1) {
        await pause(100 + random.below(CRASHES.longestMs));
        const server = random.pick(servers);
        await server.kill();
        await server.up();
      }
    }),
  );
}

async function lostReplies(environment: Environment): Promise<void> {
  const { payers, processor } = environment;
  const none = { latencyMs: 0, replyLatencyMs: 0, lostReplyRate: 0, failRate: 0 };
  const slow = { ...none, replyLatencyMs: PROCESSOR_TIMEOUT_MS + 1_000 };
  for (const behaviour of [slow, { ...none, lostReplyRate: 1 }, { ...none, failRate: 1 }]) {
    const payments = await payers.issue('lost reply', LOST);
    await processor.behave(behaviour);
    await sendEach(environment, payments);
    await processor.behave(none);
    await Promise.all(payments.map((payment) => payPatiently(environment, payment)));
  }
}

async function redisAway(environment: Environment, redis: RedisServer): Promise<Outages> {
  const { payers, processor, servers } = environment;
  await processor.behave({ latencyMs: 20 });
  const outage = async (leave: () => Promise<void>, comeBack: () => Promise<void>): Promise<Window> => {
    let window: Window = [0, 0];
    await underLoad(environment, 'Redis away', AWAY, async () => {
      await pause(AWAY.afterMs / 3);
      await leave();
      const leftAt = payers.now();
      await pause(AWAY.forMs);
      window = [leftAt, payers.now()];
      await comeBack();
      await pause(AWAY.afterMs);
    });
    return window;
  };
  const killed = await outage(redis.kill, redis.start);
  const stopped = await outage(
    async () => redis.signal('SIGSTOP'),
    async () => redis.signal('SIGCONT'),
  );
  for (const server of servers) await server.up();
  return { killed, stopped };
}

/** Redis loses everything while payments are in flight: they are repeated at once and afterwards, and so are paid ones. */
async function flushed(environment: Environment, redis: RedisServer): Promise<void> {
  const { payers, processor } = environment;
  const payments = await payers.issue('FLUSHALL', FLUSHED.inFlight);
  const paid = await paidOnce(payers, processor);
  await processor.behave({ latencyMs: FLUSHED.latencyMs });
  const first = sendEach(environment, payments);
  await pause(FLUSHED.afterMs);
  await redis.client.flushall();
  await sendEach(environment, payments);
  await first;
  await processor.behave({ latencyMs: 0 });
  await sendEach(environment, [...payments, ...paid]);
  await Promise.all(payments.map((payment) => payPatiently(environment, payment)));
}

/** Some duplicates that were answered with success and charged once; from now on they belong to FLUSHALL. */
async function paidOnce({ payments }: Payers, processor: ReferenceProcessor): Promise<Payment[]> {
  const references = (await processor.charges()).map(({ reference }) => reference);
  const isPaidOnce = ({ key, answers }: Payment) =>
    answers.some(isSuccess) && references.filter((each) => each === key).length === 1;
  const duplicated = payments.filter(({ scenario }) => scenario === 'duplicates');
  const paid = duplicated.filter(isPaidOnce).slice(0, FLUSHED.paid);
  for (const payment of paid) payment.scenario = 'FLUSHALL';
  return paid;
}

async function otherBodies({ payers, servers, random }: Environment): Promise<void> {
  for (const payment of await payers.issue('other body', OTHER_BODIES)) {
    await payers.send(payment, random.pick(servers));
    await payers.send(payment, random.pick(servers), { ...payment.money, amount: '7.77' });
  }
}

/** Repeats what has no outcome until it has one, at most for PATIENCE_MS. */
async function untilSettled({ payers, servers, random }: Environment): Promise<void> {
  const upAtMs = payers.now();
  const open = payers.payments.filter((payment) => payment.answers.length > 0 && !isSettled(payment));
  await Promise.all(
    open.map(async (payment) => {
      await pause(random.below(REPEAT_EVERY_MS));
      while (!isSettled(payment) && payers.now() < upAtMs + PATIENCE_MS) {
        await payers.send(payment, random.pick(servers));
        if (!isSettled(payment)) await pause(REPEAT_EVERY_MS);
      }
    }),
  );
}

async function sendEach({ payers, servers, random }: Environment, payments: readonly Payment[]): Promise<void> {
  await Promise.all(payments.map((payment) => payers.send(payment, random.pick(servers))));
}

/** Sends it until it has an outcome, each time to some process, but not for ever. */
async function payPatiently({ payers, servers, random }: Environment, payment: Payment): Promise<void> {
  for (let send = 0; send < SENDS && !isSettled(payment); send += 1) {
    if (send > 0) await pause(PAUSE_MS);
    await payers.send(payment, random.pick(servers));
  }
}

/** Clients pay one payment after the other while `faults` runs. */
async function underLoad(
  environment: Environment,
  scenario: Scenario,
  { clients, payments }: { readonly clients: number; readonly payments: number },
  faults: () => Promise<void>,
): Promise<void> {
  const waiting = await environment.payers.issue(scenario, payments);
  const randoms = Array.from({ length: clients }, () => environment.random.fork());
  const payNext = async (client: number) => {
    const payment = waiting.shift();
    if (payment) await payPatiently({ ...environment, random: randoms[client] as Random }, payment);
    await pause(PAUSE_MS);
  };
  await alongside(clients, payNext, faults);
}
