// Three times the load that the service can carry, offered at a fixed rate whatever it answers.
//
//   npm run bench -- overload [embedded|distributed]
//
//   BENCH_CONNECTIONS  of the load balancer's pool, where the processor time is the limit, 64
//
// Beside it a bystander sends replays, status, reads and probes at a modest rate. Afterwards the refused keys are paid.
import { markdownTable } from './markdown.mjs';
import { judge, startClient, startService } from './open-loop.mjs';
import { deploymentOf } from './options.mjs';
import { writeResults } from './results.mjs';

const TIMES = 3;
const CALM_SECONDS = 5;
const CAPACITY_SECONDS = 4;
const OVERLOAD_SECONDS = 10;
/** In the first second the queues fill: it is sent and not reported. */
const FILLING_SECONDS = 1;
const WARM_UP_PAYMENTS = 20_000;
const SPARE = 1.5;
const BYSTANDER = { mix: ['repeat', 'status', 'read', 'ready'], rate: 80, connections: 32 };
const REFUSED_SAMPLE = 200;
/** Less means that the capacity was measured while the machine was busier: the run says nothing. */
const LEAST_OFFERED = 2;
const MOST_WORSE = 5;
const MOST_RECOVERY_SECONDS = 3;

const CASES = [
  // With a processor over HTTP the limit is 192 by default; the simulated one is given a limit and a duration.
  {
    limitedBy: 'the processor',
    settings: { PROCESSOR_DELAY_MS: '200', MAX_PAYMENTS_IN_FLIGHT: '32' },
    capacityConnections: 32,
    connections: 500,
  },
  // Reading and refusing a request costs a third of a payment or more, so at three times this load there is nothing left for
  // payments where each request is read. So a load balancer has a pool: what finds no connection, it refuses itself.
  {
    limitedBy: 'the processor time of the service',
    settings: {},
    capacityConnections: 64,
    connections: Number(process.env.BENCH_CONNECTIONS || 64),
    pool: true,
  },
];

const deployment = deploymentOf(process.argv[3]);
const rows = [];
for (const each of CASES) {
  const service = await startService(deployment, each.settings);
  try {
    rows.push(await measure(service, each));
  } finally {
    await service.stopAll();
  }
}
console.log(`Written to ${await writeResults({ kind: 'overload', deployment, rows })}`);

async function measure(service, { limitedBy, capacityConnections, connections, pool = false }) {
  const [payers, bystander] = [startClient(service), startClient(service)];
  const issue = (client, count) => client.run({ mix: ['key'], count: Math.ceil(count), connections: 32 });
  const pay = (plan) => payers.run({ mix: ['pay'], connections, ...plan });
  const phase = async (load, seconds, unmeasuredSeconds = 0) => {
    const [paid, beside] = await Promise.all([
      pay({ rate: load, seconds, unmeasuredSeconds, patient: false }),
      bystander.run({ ...BYSTANDER, seconds, unmeasuredSeconds }),
    ]);
    const measuredSeconds = seconds - unmeasuredSeconds;
    return {
      load,
      seconds,
      paid,
      beside,
      measuredSeconds,
      accepted: of(paid, ['200']),
      refused: of(paid, ['503', '429']),
    };
  };

  await issue(bystander, 200);
  await bystander.run({ mix: ['pay', 'create'], count: 400, connections: 8 });
  await issue(payers, WARM_UP_PAYMENTS);
  const warm = await pay({ seconds: CAPACITY_SECONDS, count: WARM_UP_PAYMENTS, connections: capacityConnections });
  const supply = Math.ceil(warm.perSecond * CAPACITY_SECONDS * SPARE);
  await issue(payers, supply);
  // A warm service may be faster than that: then the run ends with its keys.
  const { perSecond: capacity } = await pay({
    seconds: CAPACITY_SECONDS,
    count: supply,
    connections: capacityConnections,
  });
  await issue(payers, capacity * (CALM_SECONDS + TIMES * OVERLOAD_SECONDS) * SPARE);

  const calm = await phase(capacity / 2, CALM_SECONDS);
  const over = await phase(capacity * TIMES, OVERLOAD_SECONDS, FILLING_SECONDS);
  const sample = Math.min(REFUSED_SAMPLE, over.refused.count);
  // At once, so that a lock that was left would still stand.
  const again = await pay({ mix: ['pay refused'], count: sample, rate: capacity / 2 });
  const after = await phase(capacity / 2, CALM_SECONDS);
  const open = await (await fetch(`${service.url}/api/payments?state=PROCESSING`)).json();
  for (const client of [payers, bystander]) client.stop();

  const title = `Limited by ${limitedBy}: ${Math.round(capacity)} payments a second`;
  const table = markdownTable(
    [
      'phase',
      'offered/s',
      'accepted/s',
      'p50 ms',
      'p99 ms',
      'p99 of calm',
      '503/s',
      'p99 ms of 503',
      'no connection/s',
      'p99 ms of the others',
    ],
    Object.entries({ calm, 'three times the load': over, 'calm again': after }).map(([name, each]) => [
      name,
      each.load,
      each.accepted.count / each.measuredSeconds,
      each.accepted.p50Ms,
      each.accepted.p99Ms,
      each.accepted.p99Ms / calm.accepted.p99Ms,
      each.refused.count / each.measuredSeconds,
      each.refused.p99Ms,
      each.paid.turnedAway / each.seconds,
      each.beside.p99Ms,
    ]),
  );
  console.log(`\n${title}\n\n${table}\n`);
  // The lower one: what the machine does beside it must not make the comparison easier.
  const calmP99Ms = Math.min(calm.accepted.p99Ms, after.accepted.p99Ms);
  const recovery = after.paid.p99MsBySecond.findIndex((p99Ms) => p99Ms < 2 * calm.accepted.p99Ms);
  const unserved = Object.entries(over.beside.answers).filter(([name]) => !name.endsWith(' 200'));
  const others = unserved.map(([name, { count }]) => `${count} x ${name}, `).join('');
  judge([
    [
      `p99 of accepted payments stayed under ${MOST_WORSE} times its calm value`,
      over.accepted.p99Ms < MOST_WORSE * calmP99Ms,
    ],
    [
      `the offered load was too much: more than ${LEAST_OFFERED} times what was accepted`,
      over.load > (LEAST_OFFERED * over.accepted.count) / over.measuredSeconds,
    ],
    [
      'what had a connection was answered with 200, 503 or 429',
      over.accepted.count + over.refused.count === over.paid.count && over.paid.lost === 0,
    ],
    [
      `three times the load was refused by the ${pool ? 'pool' : 'service'}`,
      pool ? over.paid.turnedAway > 0 : over.refused.count > 0 && over.paid.turnedAway === 0,
    ],
    [`refusals were as quick: p99 under ${MOST_WORSE} times the calm p99`, over.refused.p99Ms < MOST_WORSE * calmP99Ms],
    [`of ${sample} refused keys all were paid at once`, sample === 0 || of(again, ['200']).count === sample],
    [
      `replays, status, reads and probes were served (${others}${over.beside.lost} lost)`,
      unserved.length === 0 && over.beside.lost === 0,
    ],
    [
      `p99 was under twice its calm value again after ${recovery} s`,
      recovery >= 0 && recovery <= MOST_RECOVERY_SECONDS,
    ],
    ['no payment is left PROCESSING', open.length === 0],
  ]);
  return { name: limitedBy, measuredAt: new Date(), title, table };
}

/** The answers with one of these statuses; of two statuses the slower. */
function of({ answers }, statuses) {
  const found = Object.entries(answers).filter(([name]) => statuses.some((status) => name.endsWith(` ${status}`)));
  return found.reduce(
    (sum, [, { count, p50Ms, p99Ms }]) => ({
      count: sum.count + count,
      p50Ms: Math.max(sum.p50Ms, p50Ms),
      p99Ms: Math.max(sum.p99Ms, p99Ms),
    }),
    { count: 0, p50Ms: 0, p99Ms: 0 },
  );
}
