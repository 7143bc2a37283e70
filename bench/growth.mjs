// `npm run bench -- growth`: the service with no payments, with a million, and with ten million. What must not grow with them:
// the cost of a payment and of a repeat, the latency of reads, the time of a start, and the latency beside the sweeps.
//
//   npm run bench -- growth                           all of it, then the tables and the plot
//   npm run bench -- growth embedded                  one deployment
//   npm run bench -- growth embedded 1000000          one step
//   npm run bench -- growth embedded 1000000 fill     only its rows, in GROWTH_FOLDER, which stays
//   npm run bench -- growth embedded 1000000 rates    payments, repeats, reads and starts, on the rows that are there
//   npm run bench -- growth embedded 1000000 sweeps   steady load beside both sweeps, on what is there then
//   npm run bench -- growth report                    the tables and the plot of the steps that were measured last
//
// The service writes one payment; the stores copy it, each where it is. Then the service is asked for some of the copies.
// Ten million need 10 GB of disk, and 5 GB of memory for Redis. Needs wrk, and gnuplot for the plot.
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openDistributedStores } from './growth/distributed.mjs';
import { openEmbeddedStores } from './growth/embedded.mjs';
import { measureRates, measureSweeps } from './growth/measures.mjs';
import { reportGrowth, saveStep } from './growth/report.mjs';
import { planFor } from './growth/rows.mjs';
import { temporaryFolder } from './processes.mjs';
import { startServer } from './service.mjs';
import { requireWrk } from './wrk.mjs';

const COUNTS = [0, 1_000_000, 10_000_000];
const STORES = { embedded: openEmbeddedStores, distributed: openDistributedStores };
const PAYMENT = JSON.stringify({ amount: '100.50', currency: 'USD' });

const [, , , what, countText, only] = process.argv;
const deployments = what && what !== 'report' ? [what] : Object.keys(STORES);
const counts = countText ? [Number(countText)] : COUNTS;

await requireWrk();
if (what !== 'report') {
  for (const deployment of deployments) for (const count of counts) await step(deployment, count);
}
if (!only) await reportGrowth();
process.exit();

async function step(deployment, count) {
  const folder = process.env.GROWTH_FOLDER || (await temporaryFolder());
  await mkdir(folder, { recursive: true });
  const planFile = join(folder, 'plan.json');
  // Each opens the stores anew: a Redis that has just been filled goes on enlarging its table with every command, and a payment
  // then costs it more than twice as much as after a start.
  if (!only || only === 'fill') await withStores(deployment, folder, (opened) => fill({ count, planFile, ...opened }));
  if (only === 'fill') return;
  if (!existsSync(planFile)) throw new Error(`nothing is filled in ${folder}`);
  const { plan, bytes } = JSON.parse(await readFile(planFile, 'utf8'));
  const at = new Date().toISOString();
  if (only !== 'sweeps') {
    const rates = await withStores(deployment, folder, (opened) => measureRates({ deployment, plan, ...opened }));
    await saveStep({ deployment, count, at, bytes, ...rates });
  }
  if (only !== 'rates' && count > 0) {
    const sweeps = await withStores(deployment, folder, (opened) => measureSweeps({ plan, ...opened }));
    await saveStep({ deployment, count, sweeps });
  }
}

/** Calls `use` with the stores in the folder and what starts a service on them. */
async function withStores(deployment, folder, use) {
  const stores = await STORES[deployment](folder);
  const start = (more = {}) => startServer('dist/main.js', { ...stores.settings, ...more });
  try {
    return await use({ stores, start });
  } finally {
    await stores.stop();
  }
}

async function fill({ stores, start, count, planFile }) {
  const beganAt = performance.now();
  const service = await start();
  const key = JSON.parse(await (await fetch(`${service.url}/api/server-generated/generate-key`)).text());
  const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': key };
  const answer = await fetch(`${service.url}/api/payment`, { method: 'POST', headers, body: PAYMENT });
  if (answer.status !== 200) throw new Error(`the first payment was answered with ${answer.status}`);
  await service.stop();
  const plan = planFor(count, Date.now());
  await stores.forgetStatistics();
  await stores.fill(plan, key);
  await writeFile(planFile, JSON.stringify({ plan, bytes: await stores.bytes() }));
  console.error(`${count} payments are filled in after ${Math.round((performance.now() - beganAt) / 1000)} s`);
}
