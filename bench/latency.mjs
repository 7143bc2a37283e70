// How long a request takes while the service has something left: at a fixed rate of half and of 80 % of what it can carry.
// The rate does not wait for answers, and a latency counts from when the request was due (no coordinated omission).
//
//   npm run bench -- latency [embedded|distributed]
//
// The capacity is what wrk gets from the same service just before. BENCH_SECONDS and BENCH_ROUNDS as for the other rows.
import assert from 'node:assert/strict';
import { startClient, startService } from './open-loop.mjs';
import { deploymentOf, options } from './options.mjs';
import { createPayer } from './payers.mjs';
import { temporaryFolder } from './processes.mjs';
import { writeResults } from './results.mjs';
import { median } from './statistics.mjs';
import { latencyTable } from './tables.mjs';
import { requireWrk, runWrk } from './wrk.mjs';

const PARTS = { half: 0.5, '80 %': 0.8 };
/** The connections are opened then. */
const UNMEASURED_SECONDS = 0.5;
const CAPACITY_ROUNDS = 3;
/** As for the row of the rates: fewer than any cache remembers. */
const REPEATED_PAYMENTS = 5000;
const SPARE_KEYS = 1.1;

const deployment = deploymentOf(process.argv[3]);
const seconds = options.seconds + UNMEASURED_SECONDS;
await requireWrk();
const service = await startService(deployment);
try {
  const rows = await measure();
  const run = { kind: 'latency', deployment, rows };
  console.log(latencyTable([run]));
  console.log(`Written to ${await writeResults(run)}`);
} finally {
  await service.stopAll();
}

async function measure() {
  const payer = createPayer(
    'ours',
    { ...service, paymentPath: '/api/payment', issuesKeys: true },
    await temporaryFolder(),
  );
  const firstCapacity = await capacity((length) => payer.firstPayments(length));
  await payer.payFresh(REPEATED_PAYMENTS);
  const repeatCapacity = await capacity(() => payer.repeats());

  const client = startClient(service);
  const send = (mix, plan) => client.run({ mix: [mix], connections: options.connections, ...plan });
  const pay = async (rate) => {
    await send('key', { count: Math.ceil(rate * seconds * SPARE_KEYS) });
    return send('pay', { rate, seconds, unmeasuredSeconds: UNMEASURED_SECONDS });
  };
  // Another client, that knows these payments alone.
  const repeater = startClient(service);
  await repeater.run({ mix: ['key'], count: REPEATED_PAYMENTS, connections: options.connections });
  await repeater.run({ mix: ['pay'], count: REPEATED_PAYMENTS, connections: options.connections });
  const repeat = (rate) =>
    repeater.run({
      mix: ['repeat'],
      connections: options.connections,
      rate,
      seconds,
      unmeasuredSeconds: UNMEASURED_SECONDS,
    });

  const rows = [
    ...(await rounds('first payment', firstCapacity, pay)),
    ...(await rounds('repeat', repeatCapacity, repeat)),
  ];
  for (const each of [client, repeater]) each.stop();
  return rows;
}

/** The rates in turn, so that whatever drifts meets all of them. */
async function rounds(kind, capacityPerSecond, send) {
  const rows = Object.entries(PARTS).map(([part, share]) => ({
    name: `${kind}, ${part}`,
    kind,
    part,
    rate: capacityPerSecond * share,
    seconds: options.seconds,
    measuredAt: new Date(),
    rounds: [],
  }));
  await send(rows[0].rate);
  for (let round = 0; round < options.rounds; round += 1) {
    for (const { name, rate, rounds: done } of rows) {
      process.stderr.write(`${name}\n`);
      const { answers, lost, p50Ms, p99Ms, p999Ms, clientCpuUs } = await send(rate);
      assert.deepEqual(
        Object.keys(answers).filter((answer) => !answer.endsWith(' 200')),
        [],
        'not every answer was 200',
      );
      assert.equal(lost, 0, 'a request had no answer');
      done.push({ rate, p50Ms, p99Ms, p999Ms, clientCpuUs });
    }
  }
  return rows;
}

/** Requests a second that wrk gets, without a pause. */
async function capacity(loadFor) {
  const rates = [];
  for (let round = 0; round <= CAPACITY_ROUNDS; round += 1) {
    const load = await loadFor(options.seconds);
    const extent = { seconds: options.seconds, connections: options.connections };
    rates.push((await runWrk(service.url, load, extent)).requestsPerSecond);
  }
  // The first one warms up.
  return median(rates.slice(1));
}
