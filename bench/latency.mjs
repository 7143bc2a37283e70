// How long a request takes while the service has something left: at a fixed rate of half and of 80 % of what it can carry.
// The rate does not wait for answers, and a latency counts from when the request was due (no coordinated omission).
//
//   npm run bench -- latency [embedded|distributed]
//
// The capacity is what wrk gets from the same service just before each round: a shared machine may be half as fast a minute
// later, and half of what it carried then would be all of it. Just after each round a bare Fastify gets the same rate: what it
// takes is the machine's share. BENCH_SECONDS and BENCH_ROUNDS as for the other rows.
import assert from 'node:assert/strict';
import { startClient, startService } from './open-loop.mjs';
import { deploymentOf, options } from './options.mjs';
import { createPayer } from './payers.mjs';
import { temporaryFolder } from './processes.mjs';
import { writeResults } from './results.mjs';
import { startServer } from './service.mjs';
import { latencyTable } from './tables.mjs';
import { requireWrk, runWrk } from './wrk.mjs';

const PARTS = { half: 0.5, '80 %': 0.8 };
/** The connections are opened then. */
const UNMEASURED_SECONDS = 0.5;
/** As for the row of the rates: fewer than any cache remembers. */
const REPEATED_PAYMENTS = 5000;
const SPARE_KEYS = 1.1;

const extent = { connections: options.connections };
const deployment = deploymentOf(process.argv[3]);
const seconds = options.seconds + UNMEASURED_SECONDS;
await requireWrk();
const service = await startService(deployment);
const bare = await startServer('bench/bare-fastify.mjs');
try {
  const rows = await measure();
  const run = { kind: 'latency', deployment, rows };
  console.log(latencyTable([run]));
  console.log(`Written to ${await writeResults(run)}`);
} finally {
  await bare.stop();
  await service.stopAll();
}

async function measure() {
  const payer = createPayer(
    'ours',
    { ...service, paymentPath: '/api/payment', issuesKeys: true },
    await temporaryFolder(),
  );
  const firstLoad = () => payer.firstPayments(options.seconds);
  await payer.payFresh(REPEATED_PAYMENTS);
  const repeatLoad = () => payer.repeats();

  const paced = (mix) => (rate) => ({ mix: [mix], rate, seconds, unmeasuredSeconds: UNMEASURED_SECONDS, ...extent });
  const prepare = (client, mix, count) => client.run({ mix: [mix], count, ...extent });
  const client = startClient(service);
  const pay = async (rate) => {
    await prepare(client, 'key', Math.ceil(rate * seconds * SPARE_KEYS));
    return client.run(paced('pay')(rate));
  };
  // Another client, that knows these payments alone.
  const repeater = startClient(service);
  for (const mix of ['key', 'pay']) await prepare(repeater, mix, REPEATED_PAYMENTS);
  const repeat = (rate) => repeater.run(paced('repeat')(rate));
  const control = startClient(bare);
  for (const mix of ['key', 'pay']) await prepare(control, mix, 1);
  const payBare = (rate) => control.run(paced('repeat')(rate));

  const rows = [
    ...(await rounds('first payment', firstLoad, pay, payBare)),
    ...(await rounds('repeat', repeatLoad, repeat, payBare)),
  ];
  for (const each of [client, repeater, control]) each.stop();
  return rows;
}

/** The rates in turn, so that whatever drifts meets all of them. */
async function rounds(kind, loadOf, send, sendToBare) {
  const rows = Object.entries(PARTS).map(([part, share]) => ({
    name: `${kind}, ${part}`,
    kind,
    part,
    share,
    seconds: options.seconds,
    measuredAt: new Date(),
    rounds: [],
  }));
  const warmUpRate = rows[0].share * (await capacity(loadOf));
  for (const each of [send, sendToBare]) await each(warmUpRate);
  for (let round = 0; round < options.rounds; round += 1) {
    for (const { name, share, rounds: done } of rows) {
      process.stderr.write(`${name}\n`);
      const rate = share * (await capacity(loadOf));
      const { answers, lost, p50Ms, p99Ms, p999Ms, clientCpuUs } = await send(rate);
      assert.deepEqual(
        Object.keys(answers).filter((answer) => !answer.endsWith(' 200')),
        [],
        'not every answer was 200',
      );
      assert.equal(lost, 0, 'a request had no answer');
      const { p99Ms: bareP99Ms } = await sendToBare(rate);
      done.push({ rate, p50Ms, p99Ms, p999Ms, clientCpuUs, bareP99Ms });
    }
  }
  return rows;
}

/** Requests a second that wrk gets, without a pause. */
async function capacity(loadOf) {
  return (await runWrk(service.url, await loadOf(), { seconds: options.seconds, ...extent })).requestsPerSecond;
}
