// How long a request takes while the service has something left: at a fixed rate of half and of 80 % of what it can carry.
// The rate does not wait for answers, and a latency counts from when the request was due (no coordinated omission).
//
//   npm run bench -- latency [embedded|distributed]
//
// The capacity is what wrk gets from the same service just before each round: a shared machine may be half as fast a minute
// later, and half of what it carried then would be all of it. Just after each round a bare Fastify gets the same rate: what it
// takes is the machine's share. BENCH_SECONDS and BENCH_ROUNDS as for the other rows; BENCH_ROW is `first payment` or `repeat`. With
// BENCH_BEFORE the version before, with stores of its own, gets the same rate in the same round.
import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { startClient, startService } from './open-loop.mjs';
import { deploymentOf, isAsked, options } from './options.mjs';
import { createPayer } from './payers.mjs';
import { temporaryFolder } from './processes.mjs';
import { writeResults } from './results.mjs';
import { startServer } from './service.mjs';
import { latencyTable } from './tables.mjs';
import { requireWrk, runWrk } from './wrk.mjs';

const PARTS = { half: 0.5, '80 %': 0.8 };
const KINDS = ['first payment', 'repeat'];
/** The connections are opened then. */
const UNMEASURED_SECONDS = 0.5;
/** As for the row of the rates: fewer than any cache remembers. */
const REPEATED_PAYMENTS = 5000;
const SPARE_KEYS = 1.1;

const extent = { connections: options.connections };
const deployment = deploymentOf(process.argv[3]);
const seconds = options.seconds + UNMEASURED_SECONDS;
const started = [];
await requireWrk();
try {
  const subjects = { ours: await openService() };
  if (options.before) subjects.before = await openService(resolve(options.before, 'dist/main.js'));
  subjects.bare = await openBare();
  const run = { kind: 'latency', deployment, rows: await measure(subjects) };
  console.log(latencyTable([run]));
  console.log(`Written to ${await writeResults(run)}`);
} finally {
  for (const stop of started.toReversed()) await stop();
}

/** A service with its stores, and its clients: one that pays, and one that knows 5,000 payments and repeats them. */
async function openService(module) {
  const service = await startService(deployment, {}, module);
  started.push(service.stopAll);
  const payer = createPayer(
    'ours',
    { ...service, paymentPath: '/api/payment', issuesKeys: true },
    await temporaryFolder(),
  );
  await payer.payFresh(REPEATED_PAYMENTS);
  const loads = { 'first payment': () => payer.firstPayments(options.seconds), repeat: () => payer.repeats() };
  const [client, repeater] = [openClient(service), openClient(service)];
  for (const mix of ['key', 'pay']) await prepare(repeater, mix, REPEATED_PAYMENTS);
  return {
    /** Requests a second that wrk gets, without a pause. */
    async capacity(kind) {
      const result = await runWrk(service.url, await loads[kind](), { seconds: options.seconds, ...extent });
      // Else the keys of the next one run out before its time.
      payer.noteRate(result);
      return result.requestsPerSecond;
    },
    async send(kind, rate) {
      if (kind === 'repeat') return repeater.run(paced('repeat', rate));
      await prepare(client, 'key', Math.ceil(rate * seconds * SPARE_KEYS));
      return client.run(paced('pay', rate));
    },
  };
}

/** Answers the same to whatever it is asked. */
async function openBare() {
  const bare = await startServer('bench/bare-fastify.mjs');
  started.push(bare.stop);
  const client = openClient(bare);
  for (const mix of ['key', 'pay']) await prepare(client, mix, 1);
  return { send: (_kind, rate) => client.run(paced('repeat', rate)) };
}

function openClient(server) {
  const client = startClient(server);
  started.push(client.stop);
  return client;
}

function prepare(client, mix, count) {
  return client.run({ mix: [mix], count, ...extent });
}

function paced(mix, rate) {
  return { mix: [mix], rate, seconds, unmeasuredSeconds: UNMEASURED_SECONDS, ...extent };
}

async function measure(subjects) {
  const kinds = KINDS.filter(isAsked);
  if (kinds.length === 0) throw new Error(`there is no row '${options.rows}'; there are: ${KINDS.join(', ')}`);
  const rows = [];
  for (const kind of kinds) rows.push(...(await rounds(kind, subjects)));
  return rows;
}

/** The rates in turn, so that whatever drifts meets all of them. */
async function rounds(kind, { ours, before, bare }) {
  const rows = Object.entries(PARTS).map(([part, share]) => ({
    name: `${kind}, ${part}`,
    kind,
    part,
    share,
    seconds: options.seconds,
    measuredAt: new Date(),
    rounds: [],
  }));
  const warmUpRate = rows[0].share * (await ours.capacity(kind));
  await before?.capacity(kind);
  for (const subject of [ours, before, bare]) await subject?.send(kind, warmUpRate);
  for (let round = 0; round < options.rounds; round += 1) {
    for (const { name, share, rounds: done } of rows) {
      process.stderr.write(`${name}\n`);
      const rate = share * (await ours.capacity(kind));
      // Both must have the same garbage to collect.
      await before?.capacity(kind);
      const versions = Object.entries({ ...(before && { before }), ours });
      const results = {};
      // In turns: neither is always first.
      for (const [name, service] of round % 2 === 0 ? versions : versions.toReversed()) {
        results[name] = latencies(await service.send(kind, rate));
      }
      const { p99Ms: bareP99Ms } = await bare.send(kind, rate);
      done.push({ rate, ...results.ours, before: results.before, bareP99Ms });
    }
  }
  return rows;
}

function latencies({ answers, lost, p50Ms, p99Ms, p999Ms, clientCpuUs }) {
  const others = Object.keys(answers).filter((answer) => !answer.endsWith(' 200'));
  assert.deepEqual(others, [], 'not every answer was 200');
  assert.equal(lost, 0, 'a request had no answer');
  return { p50Ms, p99Ms, p999Ms, clientCpuUs };
}
