// How long a request takes while the service has something left: at a fixed rate of half and of 80 % of what it can carry.
// The rate does not wait for answers, and a latency counts from when the request was due (no coordinated omission).
//
//   npm run bench -- latency [embedded|distributed]
//
// The capacity is what wrk gets from the same service just before each round: a shared machine may be half as fast a minute
// later, and half of what it carried then would be all of it. BENCH_SECONDS and BENCH_ROUNDS as for the other rows.
import assert from 'node:assert/strict';
import { startClient, startService } from './open-loop.mjs';
import { deploymentOf, options } from './options.mjs';
import { createPayer } from './payers.mjs';
import { temporaryFolder } from './processes.mjs';
import { writeResults } from './results.mjs';
import { latencyTable } from './tables.mjs';
import { requireWrk, runWrk } from './wrk.mjs';

const PARTS = { half: 0.5, '80 %': 0.8 };
/** The connections are opened then. */
const UNMEASURED_SECONDS = 0.5;
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
  const firstLoad = () => payer.firstPayments(options.seconds);
  await payer.payFresh(REPEATED_PAYMENTS);
  const repeatLoad = () => payer.repeats();

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
    ...(await rounds('first payment', firstLoad, pay)),
    ...(await rounds('repeat', repeatLoad, repeat)),
  ];
  for (const each of [client, repeater]) each.stop();
  return rows;
}

/** The rates in turn, so that whatever drifts meets all of them. */
async function rounds(kind, loadOf, send) {
  const rows = Object.entries(PARTS).map(([part, share]) => ({
    name: `${kind}, ${part}`,
    kind,
    part,
    share,
    seconds: options.seconds,
    measuredAt: new Date(),
    rounds: [],
  }));
  await send(rows[0].share * (await capacity(loadOf)));
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
      done.push({ rate, p50Ms, p99Ms, p999Ms, clientCpuUs });
    }
  }
  return rows;
}

/** Requests a second that wrk gets, without a pause. */
async function capacity(loadOf) {
  const extent = { seconds: options.seconds, connections: options.connections };
  return (await runWrk(service.url, await loadOf(), extent)).requestsPerSecond;
}
