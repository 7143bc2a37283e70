// `npm run bench -- growth`: the service with no payments, with a million, and with ten million. These must not grow with them: the cost of
// a payment and of a repeat, the latency of reads, the time of a start, and the latency while the sweeps run.
//
//   npm run bench -- growth                           all of it
//   npm run bench -- growth embedded                  one deployment
//   npm run bench -- growth embedded 1000000          one step
//
// The service writes one payment; the stores copy it, each where it is. Then the service is asked for some of the copies.
// Ten million need 10 GB of disk, and 5 GB of memory for Redis.
import { generateKey, pay } from '../testkit/client/http-client.js';
import { Opened } from '../testkit/opened.js';
import { SERVICE } from '../testkit/programs.js';
import { openDistributedStores } from './growth/distributed.js';
import { openEmbeddedStores } from './growth/embedded.js';
import { type GrowthRow, measureGrowthRates, measureSweeps } from './growth/measures.js';
import { planFor } from './growth/rows.js';
import type { GrowthStores } from './growth/stores.js';
import { growthTables } from './growth/tables.js';
import { DEPLOYMENTS, type Deployment, deploymentOf, type Options } from './options.js';
import { writeResults } from './results.js';
import { openProgram } from './servers.js';
import { requireWrk } from './wrk.js';

const COUNTS = [0, 1_000_000, 10_000_000];
/** docs/engineering/performance.md shows steps with this number of rounds or more. */
const LEAST_ROUNDS = 3;
const STORES = { embedded: openEmbeddedStores, distributed: openDistributedStores };

export async function measureGrowth(
  options: Options,
  opened: Opened,
  [name, countText]: readonly string[],
): Promise<void> {
  await requireWrk();
  const counts = countText === undefined ? COUNTS : [Number(countText)];
  for (const deployment of name === undefined ? DEPLOYMENTS : [deploymentOf(name)]) {
    const rows: GrowthRow[] = [];
    const run = { kind: 'growth', deployment, rows } as const;
    const startedAt = new Date();
    for (const count of counts) {
      rows.push(await measureStep(await opened.keep(new Opened()), { deployment, count, options }));
      console.log(`Written to ${await writeResults(run, startedAt)}`);
    }
    console.log(`\n${growthTables(run).join('\n\n')}\n`);
  }
}

async function measureStep(
  opened: Opened,
  { deployment, count, options }: Readonly<{ deployment: Deployment; count: number; options: Options }>,
): Promise<GrowthRow> {
  try {
    const stores = await STORES[deployment](opened);
    const start = (more = {}) => openProgram(opened, SERVICE, { ...stores.settings, ...more });
    const plan = await fill(stores, await start(), count);
    const bytes = await stores.bytes();
    const given = { opened, stores, start, plan };
    await stores.restart();
    const rates = await measureGrowthRates(given, options);
    await stores.restart();
    const sweeps = count > 0 ? await measureSweeps(given) : undefined;
    const isWhole = COUNTS.includes(count) && options.rounds >= LEAST_ROUNDS;
    const measured = { count, isWhole, bytes, ...rates, ...(sweeps && { sweeps }) };
    return { name: String(count), measuredAt: new Date().toISOString(), ...measured };
  } finally {
    await opened.close();
  }
}

async function fill(stores: GrowthStores, service: { url: string; close(): Promise<void> }, count: number) {
  const beganAt = performance.now();
  const key = await generateKey(service.url);
  const { status } = await pay(service.url, key);
  if (status !== 200) throw new Error(`the first payment was answered with ${status}`);
  await service.close();
  const plan = planFor(count, Date.now());
  await stores.forgetStatistics();
  await stores.fill(plan, key);
  console.error(`${count} payments are filled in after ${Math.round((performance.now() - beganAt) / 1000)} s`);
  return plan;
}
