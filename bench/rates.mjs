// Requests a second of every server of a row, in rounds, and what a request costs each of them.
import { availableParallelism } from 'node:os';
import { startContestants } from './contestants.mjs';
import { between, perOperation } from './costs.mjs';
import { deploymentOf, isAsked, options } from './options.mjs';
import { endedChildrenCpuTimeUs, temporaryFolder } from './processes.mjs';
import { writeResults } from './results.mjs';
import { describeRows } from './rows.mjs';
import { costTable, peerTable, ratioTable, storeTable } from './tables.mjs';
import { requireWrk, runWrk } from './wrk.mjs';

/** Enough for the compiler of the engine to have seen every hot path. */
const WARM_UP_SECONDS = 1;

export async function measureRates(name) {
  const deployment = deploymentOf(name);
  await requireWrk();
  const started = [];
  const keep = async (starting) => {
    const each = await starting;
    started.push(each);
    return each;
  };
  const rows = [];
  const run = { kind: 'rates', deployment, rows, startedAt: new Date() };
  let file;
  try {
    const folder = await temporaryFolder();
    const servers = await startContestants(deployment, folder, options, keep);
    for (const row of describeRows(servers, folder)) {
      if (!isAsked(row.name)) continue;
      process.stderr.write(`${row.name}\n`);
      rows.push(await measureRow(servers, row));
      file = await writeResults(run);
    }
  } finally {
    for (const each of started.reverse()) await each.stop();
  }
  if (!file) throw new Error(`no row begins with ${options.rows.join(' or ')}`);
  console.log([ratioTable([run]), peerTable([run]), costTable(run), storeTable([run])].join('\n\n'));
  console.log(`Written to ${file}`);
}

/** A warm-up, then rounds of one run for each server. */
async function measureRow(servers, row) {
  const connections = row.connections ?? options.connections;
  await measureRound(servers, row, connections, WARM_UP_SECONDS);
  const rounds = [];
  for (let round = 0; round < options.rounds; round += 1) {
    rounds.push(await measureRound(servers, row, connections, options.seconds, round % 2 === 1));
  }
  return { name: row.name, connections, measuredAt: new Date(), seconds: options.seconds, rounds };
}

/** Alternates the order, so that no server always runs after the same other one. */
async function measureRound(servers, row, connections, seconds, backwards = false) {
  const loads = await row.loads(seconds);
  const results = {};
  const parts = Object.entries(row.entrants).toSorted(([one], [other]) => (one === 'ours') - (other === 'ours'));
  for (const [part, name] of backwards ? parts.toReversed() : parts) {
    results[part] = await measureRun(servers[name], loads[part], { seconds, connections });
  }
  await row.verify(results);
  return results;
}

async function measureRun(server, load, extent) {
  const before = await server.meter.read();
  const generatorBeforeUs = endedChildrenCpuTimeUs();
  const result = await runWrk(server.url, { ...load, headers: { ...load.headers, ...server.headers } }, extent);
  const spent = between(before, await server.meter.read());
  spent.cpuUs.generator = endedChildrenCpuTimeUs() - generatorBeforeUs;
  return { ...result, processors: availableParallelism(), costs: perOperation(spent, result.requests) };
}
