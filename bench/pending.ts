// `npm run bench -- pending`: the effect on ordinary payments of a hundred thousand payments that wait at the processor (rule P24), at a
// fixed rate. Two services of the same deployment, each with a processor of its own, get the same rate in turn. Both have the same number
// of earlier payments, which are pending at one service and paid at the other. Then both are killed, with one payment that nobody but an
// operator can settle.
//
//   npm run bench -- pending [embedded|distributed [count [rate]]]
import { join } from 'node:path';
import { Idempay } from '@idempay/client';
import { inParallel } from '../testkit/concurrency.js';
import type { Opened } from '../testkit/opened.js';
import type { Environment } from '../testkit/processes/service.js';
import { SERVICE } from '../testkit/programs.js';
import { until } from '../testkit/time/until.js';
import { residentMbOf } from './cpu-time.js';
import { type OpenLoopClient, openClient, type PlanResult } from './open-loop.js';
import { type Deployment, deploymentOf, type Options } from './options.js';
import { openProcessor, openProgram, openService, type Server, temporaryFolder } from './servers.js';
import { median } from './statistics.js';

const COUNT = 100_000;
const RATE = 500;
const CALLERS = 64;
const UNMEASURED_SECONDS = 0.5;
const SPARE_KEYS = 1.1;
/** Three quarters of an hour, so that no payment ends during the run. */
const PENDING_MS = 2_700_000;
/**
 * A processor in another place. A processor that answers at once would be asked by recovery, on the same two cores, more often than any
 * real one.
 */
const PROCESSOR_MS = 50;
const ALARM = /wait for an operator/;
const ALARM_DEADLINE_MS = 120_000;

interface Subject {
  readonly opened: Opened;
  readonly service: Server & { readonly environment: Environment };
  readonly processor: Server;
  /** Starts the processor again, with the charges that it logged. */
  startProcessor(port: number): Promise<unknown>;
  readonly client: OpenLoopClient;
  readonly results: PlanResult[];
  readonly residentMb: number[];
}

export async function measurePending(
  options: Options,
  opened: Opened,
  [name, countText, rateText]: readonly string[],
): Promise<void> {
  const deployment = deploymentOf(name);
  const [count, rate] = [Number(countText ?? COUNT), Number(rateText ?? RATE)];
  const subjects = {
    pending: await open(opened, deployment, { count, isPending: true }),
    paid: await open(opened, deployment, { count, isPending: false }),
  };
  for (let round = 0; round < options.rounds; round += 1) {
    for (const subject of Object.values(subjects)) await measureRound(subject, rate, options);
  }
  console.log(
    `${deployment}, ${rate} first payments a second, medians of ${options.rounds} rounds of ${options.seconds} s`,
  );
  for (const [which, subject] of Object.entries(subjects)) {
    const { results, residentMb } = subject;
    const of = (figure: (result: PlanResult) => number) => median(results.map(figure)).toFixed(1);
    const lost = results.reduce((sum, result) => sum + result.lost, 0);
    console.log(
      `with ${count} ${which} payments: p50 ${of(({ p50Ms }) => p50Ms)} ms, p99 ${of(({ p99Ms }) => p99Ms)} ms, ${median(residentMb).toFixed(0)} MB resident, ${lost} lost`,
    );
    const { readyMs, alarmMs } = await restart(subject);
    console.log(`  after kill -9: ready in ${readyMs.toFixed(0)} ms, the alarm after ${(alarmMs / 1000).toFixed(1)} s`);
  }
}

async function open(
  opened: Opened,
  deployment: Deployment,
  { count, isPending }: { readonly count: number; readonly isPending: boolean },
): Promise<Subject> {
  const chargeLog = join(await temporaryFolder(opened), 'charges.ndjson');
  const startProcessor = (port: number) =>
    openProcessor(opened, chargeLog, {
      PROCESSOR_PORT: String(port),
      PROCESSOR_REPLY_LATENCY_MS: String(PROCESSOR_MS),
      PROCESSOR_PENDING_RATE: isPending ? '1' : '0',
      PROCESSOR_PENDING_MS: String(PENDING_MS),
    });
  const processor = await startProcessor(0);
  const service = await openService(opened, deployment, { settings: { PROCESSOR_URL: processor.url } });
  // It repeats what a busy machine breaks off.
  const { payments } = new Idempay({ baseUrl: service.url });
  const payment = { amount: '1.00', currency: 'USD', returnUrl: 'https://shop.example/back' };
  await inParallel(count, CALLERS, async (index) => {
    const { state } = await payments.pay(payment, { reference: `order-${index}` });
    if (state !== (isPending ? 'pending' : 'paid')) throw new Error(`order-${index} is ${state}`);
  });
  return {
    opened,
    service,
    processor,
    startProcessor,
    client: openClient(opened, service),
    results: [],
    residentMb: [],
  };
}

async function measureRound({ service, client, results, residentMb }: Subject, rate: number, options: Options) {
  const { seconds, connections } = options;
  const all = seconds + UNMEASURED_SECONDS;
  await client.run({ mix: ['key'], count: Math.ceil(rate * all * SPARE_KEYS), connections });
  results.push(
    await client.run({ mix: ['pay'], rate, connections, seconds: all, unmeasuredSeconds: UNMEASURED_SECONDS }),
  );
  residentMb.push(residentMbOf(service.pid));
}

/**
 * From the start after `kill -9`: when the process is ready, and when it tells an operator of one payment, milliseconds. That one was sent
 * to a processor that stood still, which has no record of it; and it may not be sent again.
 */
async function restart({ opened, service, processor, startProcessor }: Subject) {
  process.kill(processor.pid, 'SIGSTOP');
  const { payments } = new Idempay({ baseUrl: service.url, deadlineMs: 1_000 });
  await payments.pay({ amount: '1.00', currency: 'USD' }, { reference: 'order-of-an-operator' }).catch(() => {});
  await service.kill();
  await processor.kill();
  await startProcessor(processor.port);
  const beganAt = performance.now();
  const next = await openProgram(opened, SERVICE, { ...service.environment, PROCESSOR_DEDUP_SECONDS: '0' });
  const readyMs = performance.now() - beganAt;
  await until('the alarm', ALARM_DEADLINE_MS, () => next.logs.some(({ msg = '' }) => ALARM.test(msg)));
  return { readyMs, alarmMs: performance.now() - beganAt };
}
