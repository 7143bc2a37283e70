// What is measured of one deployment with so many payments.
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { memoryMb, startClient } from '../open-loop.mjs';
import { temporaryFolder } from '../processes.mjs';
import { median } from '../statistics.mjs';
import { runWrk } from '../wrk.mjs';
import { keyOf, numbersOver, transactionIdOf } from './rows.mjs';

const PAYMENT = JSON.stringify({ amount: '100.50', currency: 'USD' });
const PAY_HEADERS = { 'Content-Type': 'application/json', 'Idempotency-Key': '{token}' };
const GENERATE_KEY = '/api/server-generated/generate-key';

const ROUNDS = Number(process.env.BENCH_ROUNDS || 5);
const SECONDS = Number(process.env.BENCH_SECONDS || 2);
const CONNECTIONS = 64;
const FIRST_KEYS = 30_000;
const SPARE_KEYS = 1.4;
const CHECKED = 100;
/** Twice what the embedded service remembers, so that its memory answers none of them. */
const REPEATED = 200_000;
const READS = { rate: 500, seconds: 10, unmeasuredSeconds: 2, connections: 32 };
const STARTS = 3;
/** What runs beside a crash and beside the sweeps, requests a second. */
const STEADY = { mix: ['pay', 'repeat', 'status'], rate: 600, connections: 64 };
const KEYS_EXPIRING = 200_000;
/** Until then the service starts, issues keys, and its engine compiles. */
const EXPIRY_SECONDS = 25;
const SWEEP_SECONDS = 40;
const POLL_MS = 1000;

export async function measureRates({ stores, start, plan }) {
  const beganAt = performance.now();
  const report = (what) => console.error(`${((performance.now() - beganAt) / 1000).toFixed(0)} s: ${what}`);
  const folder = await temporaryFolder();
  let service = await start();
  const sample = keysOver(plan);
  await check(service, plan);
  report('filled payments are known');

  const payer = createPayer(folder, stores);
  await stores.gatherStatistics();
  report('statistics are gathered');
  const first = await payer.pay(service, ROUNDS);
  report('first payments');
  const tokens = plan.count > 0 ? await writeLines(join(folder, 'sample'), sample) : payer.lastKeys;
  const repeat = await rounds(ROUNDS, () =>
    run(service, stores, keyed('POST', '/api/payment', PAYMENT, tokens, 'cycle', PAY_HEADERS)),
  );

  report('repeats');
  const client = startClient(service);
  const paid = plan.count > 0 ? sample : await linesOf(payer.lastKeys);
  const reads = await client.run({ mix: ['status'], given: { paid }, ...READS });
  const residentMb = memoryMb(service.pid);
  client.stop();

  report('reads');
  const startMs = [];
  for (let count = 0; count < STARTS; count += 1) {
    const beside = startClient(service);
    await beside.run({ mix: ['key'], count: 1000, connections: 32 });
    const load = beside.run({ ...STEADY, mix: ['pay'], seconds: 1, count: 900 }).catch(() => {});
    await delay(500);
    await service.kill();
    const beganAt = performance.now();
    service = await start();
    await untilReady(service);
    startMs.push(performance.now() - beganAt);
    await load;
    beside.stop();
  }
  report('starts');
  await service.stop();
  const readMs = { p50Ms: reads.p50Ms, p99Ms: reads.p99Ms };
  return { first, repeat, reads: readMs, residentMb, startMs: median(startMs) };
}

/** Of so many filled payments, in no order. */
function keysOver({ fresh }) {
  return numbersOver(fresh, REPEATED).map((number) => keyOf(fresh, number));
}

/** The service must know the payments that it did not write. */
async function check({ url }, { fresh }) {
  for (const number of numbersOver(fresh, CHECKED)) {
    const [key, id] = [keyOf(fresh, number), transactionIdOf(fresh, number)];
    const status = await fetch(`${url}/api/payment-status`, { headers: { 'Idempotency-Key': key } });
    assert.ok((await status.text()).includes(id), `payment-status of filled payment ${number} does not show ${id}`);
    const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': key };
    const again = await fetch(`${url}/api/payment`, { method: 'POST', headers, body: PAYMENT });
    assert.equal(again.headers.get('idempotent-replayed'), 'true', `filled payment ${number} is not repeated`);
    assert.ok((await again.text()).includes(id), `a repeat of filled payment ${number} does not show ${id}`);
    const record = await fetch(`${url}/api/payments/${key}`);
    assert.equal((await record.json()).transactionId, id);
  }
}

function createPayer(folder, stores) {
  const keys = join(folder, 'keys');
  let perSecond = 0;
  return {
    lastKeys: keys,
    async pay(service, count) {
      return rounds(count, async () => {
        const issued = Math.max(FIRST_KEYS, Math.ceil(perSecond * SECONDS * SPARE_KEYS));
        const collect = ['GET', GENERATE_KEY, '', '"([^"]+)"', keys, String(issued)];
        await runWrk(service.url, { script: 'collect.lua', args: collect }, { seconds: 60, connections: CONNECTIONS });
        const result = await run(service, stores, keyed('POST', '/api/payment', PAYMENT, keys, 'once', PAY_HEADERS));
        perSecond = Math.max(perSecond, result.perSecond);
        return result;
      });
    },
  };
}

async function run(service, { parts }, load) {
  const measured = Object.entries({ service, ...parts });
  const before = measured.map(([, { cpuUs }]) => cpuUs());
  const { requests, requestsPerSecond } = await runWrk(service.url, load, {
    seconds: SECONDS,
    connections: CONNECTIONS,
  });
  const cpuUs = measured.map(([name, { cpuUs }], index) => [name, (cpuUs() - before[index]) / requests]);
  return { perSecond: requestsPerSecond, ...Object.fromEntries(cpuUs) };
}

/** The first is a warm-up. Medians of the others. */
async function rounds(count, round) {
  await round();
  const results = [];
  for (let done = 0; done < count; done += 1) results.push(await round());
  return Object.fromEntries(
    Object.keys(results[0]).map((name) => [name, median(results.map((result) => result[name]))]),
  );
}

function keyed(method, path, body, tokens, mode, headers) {
  return { script: 'keyed.lua', args: [method, path, body, tokens, mode], headers };
}

/** Steady load while keys expire, then while old payments are removed. */
export async function measureSweeps({ stores, start, plan }) {
  const expiring = Math.min(KEYS_EXPIRING, plan.fresh.count / 2);
  // Those that expire are the oldest; a repeat of one would be a 400.
  const lastExpiring = keyOf(plan.fresh, plan.fresh.first + expiring);
  const living = keysOver(plan).filter((key) => key > lastExpiring);

  await stores.seeHours(plan);
  await stores.expireKeys(plan, expiring, Date.now() + EXPIRY_SECONDS * 1000);
  const service = await start();
  const client = startClient(service);
  await client.run({ mix: ['key'], count: STEADY.rate * SWEEP_SECONDS, connections: 32, given: { paid: living } });
  const keys = await beside(client, service, stores, (counter) => counter.keys());
  await service.stop();

  await stores.seeHours(plan);
  await stores.allowRemoval(plan);
  const removing = await start({ PAYMENT_RETENTION_DAYS: '1' });
  const retention = await beside(client, removing, stores, (counter) => counter.oldPayments(plan));
  client.stop();
  await removing.stop();
  return { keys, retention };
}

/** Steady load, and at the end of each second how many are left of what is being removed. */
async function beside(client, { url }, stores, count) {
  const counter = await stores.counter();
  const counts = [];
  const load = client.run({ ...STEADY, seconds: SWEEP_SECONDS, port: Number(new URL(url).port) });
  const polling = setInterval(() => counts.push(count(counter)), POLL_MS);
  const { p99MsBySecond, answers, lost } = await load;
  clearInterval(polling);
  // The last one may still be counting, ten million rows for example.
  const left = await Promise.all(counts);
  await counter.close();
  const wrong = Object.keys(answers).filter((name) => !name.endsWith(' 200'));
  assert.deepEqual(wrong, [], 'something was not answered with 200');
  assert.equal(lost, 0);
  return { p99MsBySecond, left };
}

async function untilReady({ url }) {
  for (;;) {
    const answer = await fetch(`${url}/readyz`).catch(() => undefined);
    await answer?.arrayBuffer();
    if (answer?.status === 200) return;
    await delay(2);
  }
}

async function linesOf(file) {
  return (await readFile(file, 'utf8')).trimEnd().split('\n');
}

async function writeLines(file, lines) {
  await writeFile(file, `${lines.join('\n')}\n`);
  return file;
}
