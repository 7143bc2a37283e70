import { inParallel } from '../../testkit/concurrency.js';
import type { ReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { Random } from '../../testkit/random.js';
import type { RedisServer } from '../../testkit/servers/redis.js';
import { pause } from '../../testkit/time/until.js';
import { isSettled, isSuccess, type Payers, type Payment } from './payers.js';
import type { ServerProcess } from './server-process.js';

/** All the same for every server: the time-out of a call to the processor. */
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

export interface Stage {
  readonly payers: Payers;
  readonly servers: readonly ServerProcess[];
  readonly processor: ReferenceProcessor;
  readonly redis: RedisServer | undefined;
  readonly random: Random;
}

/** From when to when, since the trial began. */
export type Window = readonly [fromMs: number, toMs: number];

export interface Course {
  readonly killed?: Window;
  readonly stopped?: Window;
}

/**
 * What every server goes through, in the same order. `onSettled` is called when everything has been well for PATIENCE_MS,
 * or all payments have an outcome: before Redis loses everything, for then nothing is locked any more.
 */
export async function runScenario(stage: Stage, onSettled: () => Promise<void>): Promise<Course> {
  const { redis } = stage;
  await duplicates(stage);
  await otherBodies(stage);
  const away = redis ? await redisAway(stage, redis) : {};
  await lostReplies(stage);
  await crashes(stage);
  await untilSettled(stage);
  await onSettled();
  if (redis) await flushed(stage, redis);
  return away;
}

async function duplicates({ payers, servers, processor, random }: Stage): Promise<void> {
  await processor.behave({ latencyMs: 20 });
  const payments = await payers.issue('duplicates', DUPLICATES.keys);
  await inParallel(payments.length, DUPLICATES.keysAtOnce, async (index) => {
    const copies = Array.from({ length: DUPLICATES.copies }, (_, copy) => servers[copy % servers.length]);
    await Promise.all(copies.map((server) => payers.send(payments[index] as Payment, server as ServerProcess)));
  });
  await inParallel(payments.length, DUPLICATES.keysAtOnce, (index) =>
    payPatiently({ payers, servers, random }, payments[index] as Payment),
  );
}

/** A process is killed at a random moment, again and again, while clients pay; the next one is started at once. */
async function crashes(stage: Stage): Promise<void> {
  const { payers, servers, processor, random } = stage;
  await processor.behave({ latencyMs: 40, replyLatencyMs: 40 });
  const load = new Load(stage, await payers.issue('crash', CRASHES.payments), CRASHES.clients);
  const comingBack = comeBack(stage, load);
  for (let round = 0; round < CRASHES.rounds; round += 1) {
    await pause(100 + random.below(CRASHES.longestMs));
    const victim = random.pick(servers);
    await victim.kill();
    await victim.listening();
  }
  await load.stop();
  await comingBack;
}

/** To the payments that clients gave up for a while, for as long as there is load. */
async function comeBack({ payers, servers, random }: Stage, load: Load): Promise<void> {
  while (!load.isStopped) {
    await pause(REPEAT_EVERY_MS / 2);
    const left = payers.payments.filter(
      (payment) => payment.scene === 'crash' && payment.told.length >= SENDS && !isSettled(payment),
    );
    await Promise.all(left.map((payment) => payers.send(payment, random.pick(servers))));
  }
}

async function lostReplies({ payers, servers, processor, random }: Stage): Promise<void> {
  const none = { latencyMs: 0, replyLatencyMs: 0, lostReplyRate: 0, failRate: 0 };
  const slow = { ...none, replyLatencyMs: PROCESSOR_TIMEOUT_MS + 1_000 };
  for (const behaviour of [slow, { ...none, lostReplyRate: 1 }, { ...none, failRate: 1 }]) {
    const payments = await payers.issue('lost reply', LOST);
    await processor.behave(behaviour);
    await Promise.all(payments.map((payment) => payers.send(payment, random.pick(servers))));
    await processor.behave(none);
    await Promise.all(payments.map((payment) => payPatiently({ payers, servers, random }, payment)));
  }
}

async function redisAway(stage: Stage, redis: RedisServer): Promise<{ killed: Window; stopped: Window }> {
  const { payers, processor } = stage;
  await processor.behave({ latencyMs: 20 });
  const underLoad = async (leave: () => Promise<void>, comeBack: () => Promise<void>): Promise<Window> => {
    const load = new Load(stage, await payers.issue('Redis away', AWAY.payments), AWAY.clients);
    await pause(AWAY.afterMs / 3);
    await leave();
    const leftAt = payers.now();
    await pause(AWAY.forMs);
    const backAt = payers.now();
    await comeBack();
    await pause(AWAY.afterMs);
    await load.stop();
    return [leftAt, backAt];
  };
  const killed = await underLoad(redis.kill, redis.start);
  const stopped = await underLoad(
    async () => redis.signal('SIGSTOP'),
    async () => redis.signal('SIGCONT'),
  );
  for (const server of stage.servers) await server.listening();
  return { killed, stopped };
}

/** Redis loses everything while payments are under way: they are repeated at once and afterwards, and so are paid ones. */
async function flushed({ payers, servers, processor, random }: Stage, redis: RedisServer): Promise<void> {
  const payments = await payers.issue('FLUSHALL', FLUSHED.inFlight);
  const paid = await paidOnce(payers, processor);
  await processor.behave({ latencyMs: FLUSHED.latencyMs });
  const first = payments.map((payment) => payers.send(payment, random.pick(servers)));
  await pause(FLUSHED.afterMs);
  await redis.client.flushall();
  await Promise.all(payments.map((payment) => payers.send(payment, random.pick(servers))));
  await Promise.all(first);
  await processor.behave({ latencyMs: 0 });
  await Promise.all([...payments, ...paid].map((payment) => payers.send(payment, random.pick(servers))));
  await Promise.all(payments.map((payment) => payPatiently({ payers, servers, random }, payment)));
}

/** Some of the first scene's that were told success, and charged once: now they belong to this scene. */
async function paidOnce({ payments }: Payers, processor: ReferenceProcessor): Promise<Payment[]> {
  const references = (await processor.charges()).map(({ reference }) => reference);
  const once = ({ key, told }: Payment) =>
    told.some(({ status }) => isSuccess(status)) && references.filter((each) => each === key).length === 1;
  const paid = payments.filter((payment) => payment.scene === 'duplicates' && once(payment)).slice(0, FLUSHED.paid);
  for (const payment of paid) payment.scene = 'FLUSHALL';
  return paid;
}

async function otherBodies({ payers, servers, random }: Stage): Promise<void> {
  for (const payment of await payers.issue('other body', OTHER_BODIES)) {
    await payers.send(payment, random.pick(servers));
    await payers.send(payment, random.pick(servers), { ...payment.money, amount: '7.77' });
  }
}

/** Repeats what has no outcome until it has one, at most for PATIENCE_MS. */
async function untilSettled({ payers, servers, random }: Stage): Promise<void> {
  const healedAtMs = payers.now();
  const open = payers.payments.filter((payment) => payment.told.length > 0 && !isSettled(payment));
  await Promise.all(
    open.map(async (payment) => {
      await pause(random.below(REPEAT_EVERY_MS));
      while (payers.now() < healedAtMs + PATIENCE_MS) {
        await payers.send(payment, random.pick(servers));
        if (isSettled(payment)) return;
        await pause(REPEAT_EVERY_MS);
      }
    }),
  );
}

type Counter = Pick<Stage, 'payers' | 'servers' | 'random'>;

/** Sends it until it has an outcome, each time to some process, but not for ever. */
async function payPatiently({ payers, servers, random }: Counter, payment: Payment): Promise<void> {
  for (let send = 0; send < SENDS && !isSettled(payment); send += 1) {
    if (send > 0) await pause(PAUSE_MS);
    await payers.send(payment, random.pick(servers));
  }
}

/** Clients that pay one payment after the other. */
class Load {
  isStopped = false;
  readonly #clients: Promise<unknown>;

  constructor({ payers, servers, random }: Stage, payments: readonly Payment[], clients: number) {
    const waiting = [...payments];
    const client = async (own: Random) => {
      for (;;) {
        const payment = this.isStopped ? undefined : waiting.shift();
        if (!payment) return;
        await payPatiently({ payers, servers, random: own }, payment);
        await pause(PAUSE_MS);
      }
    };
    this.#clients = Promise.all(Array.from({ length: clients }, () => client(random.fork())));
  }

  async stop(): Promise<void> {
    this.isStopped = true;
    await this.#clients;
  }
}
