// Requests a second of every server of a row, in rounds, and what a request costs each of them.
import { availableParallelism } from 'node:os';
import type { Opened } from '../testkit/opened.js';
import { type Contestant, type Contestants, openContestants } from './contestants.js';
import { between, perOperation } from './costs.js';
import { endedChildrenCpuTimeUs } from './cpu-time.js';
import { deploymentOf, isAsked, type Options } from './options.js';
import { type Answered, type RateRow, type Round, writeResults } from './results.js';
import { describeRows, type MeasuredRow } from './rows.js';
import { temporaryFolder } from './servers.js';
import { costTable, peerTable, ratioTable, storeTable } from './tables.js';
import { type Extent, type Load, requireWrk, runWrk } from './wrk.js';

/** Enough for the compiler of the engine to have seen every hot path. */
const WARM_UP_SECONDS = 1;

export async function measureRates(options: Options, opened: Opened, [name]: readonly string[]): Promise<void> {
  const deployment = deploymentOf(name);
  await requireWrk();
  const rows: RateRow[] = [];
  const run = { kind: 'rates', deployment, rows } as const;
  const startedAt = new Date();
  let file: string | undefined;
  const servers = await openContestants(opened, deployment, options);
  for (const row of describeRows(servers, await temporaryFolder(opened))) {
    if (!isAsked(options, row.name)) continue;
    process.stderr.write(`${row.name}\n`);
    rows.push(await measureRow(servers, row, options));
    file = await writeResults(run, startedAt);
  }
  if (!file) throw new Error(`no row begins with ${options.rows.join(' or ')}`);
  console.log([ratioTable([run]), peerTable([run]), costTable(run), storeTable([run])].join('\n\n'));
  console.log(`Written to ${file}`);
}

/** A warm-up, then rounds of one run for each server. */
async function measureRow(servers: Contestants, row: MeasuredRow, options: Options): Promise<RateRow> {
  const { connections = options.connections } = row;
  const { seconds } = options;
  await measureRound(servers, row, { connections, seconds: WARM_UP_SECONDS });
  const rounds: Round[] = [];
  for (let round = 0; round < options.rounds; round += 1) {
    rounds.push(await measureRound(servers, row, { connections, seconds }, round % 2 === 1));
  }
  return { name: row.name, connections, measuredAt: new Date().toISOString(), seconds, rounds };
}

/** Alternates the order, so that no server always runs after the same other one. */
async function measureRound(servers: Contestants, row: MeasuredRow, extent: Extent, backwards = false): Promise<Round> {
  const loads = await row.loads(extent.seconds);
  const results: Record<string, Answered> = {};
  const parts = Object.entries(row.entrants).toSorted(
    ([one], [other]) => Number(one === 'ours') - Number(other === 'ours'),
  );
  for (const [part, name] of backwards ? parts.toReversed() : parts) {
    const [server, load] = [servers.get(name), loads[part]];
    if (!server || !load) continue;
    results[part] = await measureRun(server, load, extent).catch((cause) => {
      throw new Error(`${row.name}, ${part}: ${cause.message}`, { cause });
    });
  }
  await row.verify(results);
  const { ours, bare } = results;
  if (!ours || !bare) throw new Error(`${row.name} has no run of the service and of a bare Fastify`);
  return { ...results, ours, bare };
}

async function measureRun({ url, meter }: Contestant, load: Load, extent: Extent): Promise<Answered> {
  const before = await meter.read();
  const generatorBeforeUs = endedChildrenCpuTimeUs();
  const result = await runWrk(url, load, extent);
  const spent = between(before, await meter.read());
  spent.cpuUs.generator = endedChildrenCpuTimeUs() - generatorBeforeUs;
  return { ...result, processors: availableParallelism(), costs: perOperation(spent, result.requests) };
}
