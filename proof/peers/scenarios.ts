import { alongside, inParallel } from '../../testkit/concurrency.js';
import type { ReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { SupervisedService } from '../../testkit/processes/supervised-service.js';
import type { Random } from '../../testkit/random.js';
import type { RedisServer } from '../../testkit/servers/redis.js';
import { pause } from '../../testkit/time/until.js';
import { isSuccess, PAUSE_MS, type Payers, type Payment, REPEAT_EVERY_MS, type Scenario, SENDS } from './payers.js';

/** The time-out of a call to the processor, the same for every server. */
export const PROCESSOR_TIMEOUT_MS = 2_000;

const DUPLICATES = { keys: 200, copies: 5, keysAtOnce: 20 };
const CRASHES = { rounds: 10, clients: 12, payments: 600, longestMs: 700 };
const LOST = 20;
/** Longer than a request may take, so that one that waits for Redis is seen to hang. */
const AWAY = { forMs: 12_000, afterMs: 3_000, clients: 8, payments: 1_200 };
const FLUSHED = { inFlight: 40, paid: 40, afterMs: 700, latencyMs: 1_500 };
const OTHER_BODIES = 10;

export interface Environment {
  readonly payers: Payers;
  readonly servers: readonly SupervisedService[];
  readonly processor: ReferenceProcessor;
  readonly redis: RedisServer | undefined;
  readonly random: Random;
}

/** From when to when Redis was down, since the trial began. */
export type Window = readonly [fromMs: number, toMs: number];
export type Outages = Partial<Record<'killed' | 'stopped', Window>>;

/**
 * The same for every server, in the same order. `onSettled` is called when all payments have an outcome, or everything has
 * been up for PATIENCE_MS: before Redis loses everything, because no key is locked after that.
 */
export async function runScenarios(environment: Environment, onSettled: () => Promise<void>): Promise<Outages> {
  const { payers, redis } = environment;
  await duplicates(environment);
  for (const payment of await payers.issue('other body', OTHER_BODIES)) {
    await payers.send(payment);
    await payers.send(payment, undefined, { ...payment.money, amount: '7.77' });
  }
  const outages = redis ? await redisAway(environment, redis) : {};
  await lostReplies(environment);
  await crashes(environment);
  await payers.untilSettled();
  await onSettled();
  if (redis) await flushed(environment, redis);
  return outages;
}

async function duplicates({ payers, servers, processor }: Environment): Promise<void> {
  await processor.behave({ latencyMs: 20 });
  const payments = await payers.issue('duplicates', DUPLICATES.keys);
  const atOnce = (task: (payment: Payment) => Promise<unknown>) =>
    inParallel(payments.length, DUPLICATES.keysAtOnce, (index) => task(payments[index] as Payment));
  await atOnce((payment) => {
    const copies = Array.from({ length: DUPLICATES.copies }, (_, copy) => servers[copy % servers.length]);
    return Promise.all(copies.map((server) => payers.send(payment, server)));
  });
  await atOnce((payment) => payers.payPatiently(payment));
}

/** A process is killed at a random moment, again and again, while clients pay; the next one is started at once. */
async function crashes({ payers, servers, processor, random }: Environment): Promise<void> {
  await processor.behave({ latencyMs: 40, replyLatencyMs: 40 });
  const isGivenUp = ({ scenario, answers }: Payment) => scenario === 'crash' && answers.length >= SENDS;
  const comeBack = async () => {
    await pause(REPEAT_EVERY_MS / 2);
    await payers.sendEach(payers.open.filter(isGivenUp));
  };
  await underLoad(payers, 'crash', CRASHES, () =>
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

async function lostReplies({ payers, processor }: Environment): Promise<void> {
  const none = { latencyMs: 0, replyLatencyMs: 0, lostReplyRate: 0, failRate: 0 };
  for (const loss of [{ replyLatencyMs: PROCESSOR_TIMEOUT_MS + 1_000 }, { lostReplyRate: 1 }, { failRate: 1 }]) {
    const payments = await payers.issue('lost reply', LOST);
    await processor.behave({ ...none, ...loss });
    await payers.sendEach(payments);
    await processor.behave(none);
    await Promise.all(payments.map((payment) => payers.payPatiently(payment)));
  }
}

async function redisAway({ payers, processor, servers }: Environment, redis: RedisServer): Promise<Outages> {
  await processor.behave({ latencyMs: 20 });
  const outage = async ([leave, comeBack]: readonly [() => unknown, () => unknown]): Promise<Window> => {
    let window: Window = [0, 0];
    await underLoad(payers, 'Redis down', AWAY, async () => {
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
  const killed = await outage([() => redis.kill(), () => redis.start()]);
  const stopped = await outage([() => redis.signal('SIGSTOP'), () => redis.signal('SIGCONT')]);
  for (const server of servers) await server.up();
  return { killed, stopped };
}

/** Redis loses everything while payments are in flight: they are repeated at once and afterwards, and so are paid ones. */
async function flushed({ payers, processor }: Environment, redis: RedisServer): Promise<void> {
  const payments = await payers.issue('FLUSHALL', FLUSHED.inFlight);
  // Some duplicates that were answered with success and charged once; from now on they belong here.
  const references = (await processor.charges()).map(({ reference }) => reference);
  const isPaidOnce = ({ key, scenario, answers }: Payment) =>
    scenario === 'duplicates' && answers.some(isSuccess) && references.filter((each) => each === key).length === 1;
  const paid = payers.payments.filter(isPaidOnce).slice(0, FLUSHED.paid);
  for (const payment of paid) payment.scenario = 'FLUSHALL';

  await processor.behave({ latencyMs: FLUSHED.latencyMs });
  const first = payers.sendEach(payments);
  await pause(FLUSHED.afterMs);
  await redis.client.flushall();
  await payers.sendEach(payments);
  await first;
  await processor.behave({ latencyMs: 0 });
  await payers.sendEach([...payments, ...paid]);
  await Promise.all(payments.map((payment) => payers.payPatiently(payment)));
}

type Load = Pick<typeof AWAY, 'clients' | 'payments'>;

/** Clients pay one payment after the other while `faults` runs. */
async function underLoad(payers: Payers, scenario: Scenario, load: Load, faults: () => Promise<void>): Promise<void> {
  const { clients, payments } = load;
  const waiting = await payers.issue(scenario, payments);
  const payNext = async () => {
    const payment = waiting.shift();
    if (payment) await payers.payPatiently(payment);
    await pause(PAUSE_MS);
  };
  await alongside(clients, payNext, faults);
}
