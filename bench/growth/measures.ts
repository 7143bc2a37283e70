// The measures of one deployment with this number of payments.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ask, pay, paymentStatus } from '../../testkit/client/http-client.js';
import type { Opened } from '../../testkit/opened.js';
import type { Environment } from '../../testkit/processes/service.js';
import { pause, until } from '../../testkit/time/until.js';
import type { Measured } from '../costs.js';
import { type OpenLoopClient, openClient } from '../open-loop.js';
import type { Options } from '../options.js';
import { linesOf, Payer, paymentsWith, writeLines } from '../payers.js';
import type { Row } from '../results.js';
import { type Server, temporaryFolder } from '../servers.js';
import { median } from '../statistics.js';
import { type Load, runWrk, type WrkResult } from '../wrk.js';
import { keyOf, numbersOver, type Plan, transactionIdOf } from './rows.js';
import type { Bytes, GrowthStores } from './stores.js';

const CHECKED = 100;
/** Twice what the embedded service remembers, so that its memory answers none of them. */
const REPEATED = 200_000;
const READS = { rate: 500, seconds: 10, unmeasuredSeconds: 2, connections: 32 };
const STARTS = 3;
const START_DEADLINE_MS = 60_000;
/** The load during a crash and during the sweeps, requests a second. */
const STEADY = { mix: ['pay', 'repeat', 'status'], rate: 600, connections: 64 } as const;
const KEYS_EXPIRING = 200_000;
/** Until then the service starts, issues keys, and its engine compiles. */
const EXPIRY_SECONDS = 25;
const SWEEP_SECONDS = 40;
const POLL_MS = 1000;

export interface GrowthSubject {
  readonly opened: Opened;
  readonly stores: GrowthStores;
  readonly plan: Plan;
  start(more?: Environment): Promise<Server>;
}

/** Requests a second, and CPU time of a request by part. */
export interface Costs {
  readonly perSecond: number;
  readonly cpuUs: Readonly<Record<string, number>>;
}

export interface Growth {
  readonly first: Costs;
  readonly repeat: Costs;
  readonly reads: Readonly<Record<'p50Ms' | 'p99Ms', number>>;
  readonly residentMb: number;
  readonly startMs: number;
}

/** p99 of each second, and how many were left at its end of what is removed. */
export interface Sweep {
  readonly p99MsBySecond: readonly number[];
  readonly left: readonly number[];
}
export type Sweeps = Readonly<Record<'keys' | 'retention', Sweep>>;

export type GrowthRow = Row & Growth & Readonly<{ count: number; isWhole: boolean; bytes: Bytes; sweeps?: Sweeps }>;

export async function measureGrowthRates(subject: GrowthSubject, options: Options): Promise<Growth> {
  const { opened, stores, plan } = subject;
  const folder = await temporaryFolder(opened);
  const service = await subject.start();
  await check(service, plan);
  const payer = new Payer('growth', service.url, folder);
  await stores.gatherStatistics();
  const run = async (load: Load) => costsOf(service, stores, load, options);
  const first = await rounds(options.rounds, async () => {
    const { result, costs } = await run(await payer.firstPayments(options.seconds));
    payer.noteRate(result);
    return costs;
  });
  const tokens = plan.count > 0 ? await writeLines(join(folder, 'sample'), keysOver(plan)) : payer.keys;
  const repeat = await rounds(options.rounds, async () => (await run(paymentsWith(tokens, 'cycle'))).costs);
  const client = openClient(opened, service);
  const { p50Ms, p99Ms } = await client.run({ mix: ['status'], given: { paid: await linesOf(tokens) }, ...READS });
  const residentMb = memoryMb(service.pid);
  await client.stop();
  const startMs = await measureStarts(subject, service);
  return { first, repeat, reads: { p50Ms, p99Ms }, residentMb, startMs };
}

/** From a kill under load until the next process is ready, milliseconds. */
async function measureStarts({ opened, start }: GrowthSubject, first: Server): Promise<number> {
  const startMs: number[] = [];
  let service = first;
  for (let count = 0; count < STARTS; count += 1) {
    const client = openClient(opened, service);
    await client.run({ mix: ['key'], count: 1000, connections: 32 });
    const load = client.run({ ...STEADY, mix: ['pay'], seconds: 1, count: 900 }).catch(() => {});
    await pause(500);
    await service.kill();
    const beganAt = performance.now();
    service = await start();
    const { url } = service;
    await until('the service to be ready', START_DEADLINE_MS, async () => (await ask(`${url}/readyz`)).status === 200);
    startMs.push(performance.now() - beganAt);
    await load;
    await client.stop();
  }
  await service.close();
  return median(startMs);
}

/** The keys of REPEATED filled payments, in random order. */
function keysOver({ fresh }: Plan): string[] {
  return numbersOver(fresh, REPEATED).map((number) => keyOf(fresh, number));
}

/** The service must know the payments that it did not write. */
async function check({ url }: Server, { fresh }: Plan): Promise<void> {
  for (const number of numbersOver(fresh, CHECKED)) {
    const [key, id] = [keyOf(fresh, number), transactionIdOf(fresh, number)];
    const status = await paymentStatus(url, key);
    assert.ok(status.text.includes(id), `payment-status of filled payment ${number} does not show ${id}`);
    const again = await pay(url, key);
    assert.equal(again.headers['idempotent-replayed'], 'true', `filled payment ${number} is not repeated`);
    assert.ok(again.text.includes(id), `a repeat of filled payment ${number} does not show ${id}`);
    const record = await ask(`${url}/api/payments/${key}`);
    assert.equal(record.json<{ transactionId: string }>().transactionId, id);
  }
}

async function costsOf(
  service: Server,
  { parts }: GrowthStores,
  load: Load,
  { seconds, connections }: Options,
): Promise<{ result: WrkResult; costs: Costs }> {
  const measured: [string, Measured][] = Object.entries({ service, ...parts });
  const before = measured.map(([, { cpuUs }]) => cpuUs());
  const result = await runWrk(service.url, load, { seconds, connections });
  const cpuUs = measured.map(([name, { cpuUs }], index): [string, number] => [
    name,
    (cpuUs() - (before[index] ?? 0)) / result.requests,
  ]);
  return { result, costs: { perSecond: result.requestsPerSecond, cpuUs: Object.fromEntries(cpuUs) } };
}

/** The first is a warm-up. Medians of the others. */
async function rounds(count: number, round: () => Promise<Costs>): Promise<Costs> {
  await round();
  const results: Costs[] = [];
  for (let done = 0; done < count; done += 1) results.push(await round());
  const cpuUs = Object.keys(results[0]?.cpuUs ?? {}).map((part): [string, number] => [
    part,
    median(results.map((result) => result.cpuUs[part] ?? 0)),
  ]);
  return { perSecond: median(results.map(({ perSecond }) => perSecond)), cpuUs: Object.fromEntries(cpuUs) };
}

/** Steady load while keys expire, then while old payments are removed. */
export async function measureSweeps({ opened, stores, plan, start }: GrowthSubject): Promise<Sweeps> {
  const expiring = Math.min(KEYS_EXPIRING, plan.fresh.count / 2);
  // Those that expire are the oldest; a repeat of one would be a 400.
  const lastExpiring = keyOf(plan.fresh, plan.fresh.first + expiring);
  const living = keysOver(plan).filter((key) => key > lastExpiring);

  await stores.seeHours(plan);
  await stores.expireKeys(plan, expiring, Date.now() + EXPIRY_SECONDS * 1000);
  const service = await start();
  const client = openClient(opened, service);
  await client.run({ mix: ['key'], count: STEADY.rate * SWEEP_SECONDS, connections: 32, given: { paid: living } });
  const keys = await measureSweep(client, service, () => stores.countKeys());
  await service.close();

  await stores.seeHours(plan);
  await stores.allowRemoval(plan);
  const removing = await start({ PAYMENT_RETENTION_DAYS: '1' });
  const retention = await measureSweep(client, removing, () => stores.countOldPayments(plan));
  await client.stop();
  await removing.close();
  return { keys, retention };
}

/** Steady load, and at the end of each second how many are left of what is being removed. */
async function measureSweep(client: OpenLoopClient, { port }: Server, count: () => Promise<number>): Promise<Sweep> {
  const counts: Promise<number>[] = [];
  const load = client.run({ ...STEADY, seconds: SWEEP_SECONDS, port });
  const polling = setInterval(() => counts.push(count()), POLL_MS);
  const { p99MsBySecond, answers, lost } = await load;
  clearInterval(polling);
  // The last one may still be counting, ten million rows for example.
  const left = await Promise.all(counts);
  const wrong = Object.keys(answers).filter((name) => !name.endsWith(' 200'));
  assert.deepEqual(wrong, [], 'something was not answered with 200');
  assert.equal(lost, 0);
  return { p99MsBySecond, left };
}

function memoryMb(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kilobytes) / 1024;
}
