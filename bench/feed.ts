// `npm run bench -- feed`: the effect on ordinary payments of a webhook endpoint and a reader that have a million settlements before them
// (rules E1 to E3), at a fixed rate. One service gets the rate in turn alone and while both read on from the oldest settlement, as fast as
// they can.
//
//   npm run bench -- feed [embedded|distributed [count [rate]]]
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { ask } from '../testkit/client/http-client.js';
import type { ShownSettlements } from '../testkit/client/settlements.js';
import type { Opened } from '../testkit/opened.js';
import { SERVICE } from '../testkit/programs.js';
import { changeStored, type StoredChange, settledPayments } from '../testkit/protocol/stored-rows.js';
import { newWebhookSecret, writeEndpointFile } from '../testkit/servers/webhook-receiver.js';
import { pause, until } from '../testkit/time/until.js';
import { residentMbOf } from './cpu-time.js';
import { type OpenLoopClient, openClient, type PlanResult } from './open-loop.js';
import { type Deployment, deploymentOf, type Options } from './options.js';
import { openPostgres, openProgram, openRedis, temporaryFolder } from './servers.js';
import { median } from './statistics.js';

const COUNT = 1_000_000;
const RATE = 200;
const UNMEASURED_SECONDS = 0.5;
const SPARE_KEYS = 1.1;
/** Settlements are two in each second, and the newest is this old. */
const NEWEST_AGE_MS = 3_600_000;
const CHANGE_DEADLINE_MS = 60_000;
/** Longer than the service takes to read a changed file and to wait for the last answers. */
const REST_MS = 4_000;
const PAGE = 1_000;

/** The row of an endpoint that has got nothing yet, and what the database should know of its rows. */
const AT_OLDEST: StoredChange = {
  embedded: `INSERT INTO webhook_endpoints (name, incarnation, at_us, lease_until)
    SELECT 'shop', incarnation, 0, 0 FROM settlement_incarnations ORDER BY number DESC LIMIT 1; ANALYZE`,
  distributed: `INSERT INTO idempay.webhook_endpoints (name, incarnation, at_us, lease_until)
    SELECT 'shop', incarnation, 0, now() FROM idempay.settlement_incarnations ORDER BY number DESC LIMIT 1`,
};
const ANALYZE: StoredChange = { embedded: '', distributed: 'VACUUM ANALYZE idempay.payments' };

interface Round {
  readonly payments: PlanResult;
  readonly residentMb: number;
  readonly deliveriesASecond: number;
  readonly readASecond: number;
}

export async function measureFeed(
  options: Options,
  opened: Opened,
  [name, countText, rateText]: readonly string[],
): Promise<void> {
  const deployment = deploymentOf(name);
  const [count, rate] = [Number(countText ?? COUNT), Number(rateText ?? RATE)];
  const receiver = await openReceiver(opened);
  const file = await writeEndpointFile([]);
  await opened.keep({ close: file.remove });
  const environment = await filledStores(opened, deployment, count);
  const service = await openProgram(opened, SERVICE, { ...environment, WEBHOOKS_FILE: file.path });
  const client = openClient(opened, service);
  const reader = createReader(service.url);
  const rounds: Record<'alone' | 'behind', Round[]> = { alone: [], behind: [] };
  const measure = (isBehind: boolean) =>
    measureRound(service.pid, { client, receiver, reader: isBehind ? reader : undefined }, rate, options);
  for (let round = 0; round < options.rounds; round += 1) {
    rounds.alone.push(await measure(false));
    await file.change([receiver.endpoint]);
    const before = receiver.taken();
    await until('deliveries', CHANGE_DEADLINE_MS, () => receiver.taken() > before);
    rounds.behind.push(await measure(true));
    await file.change([]);
    await untilRests(receiver.taken);
  }
  console.log(
    `${deployment}, ${count} settlements, ${rate} first payments a second, medians of ${options.rounds} rounds of ${options.seconds} s`,
  );
  for (const [which, each] of Object.entries(rounds)) console.log(`${which}: ${textOf(each)}`);
  const resident = rounds.behind.map(({ residentMb }) => residentMb.toFixed(0));
  console.log(
    `${receiver.taken()} deliveries and ${reader.read()} settlements read in all; resident ${resident.join(', ')} MB`,
  );
}

function textOf(rounds: readonly Round[]): string {
  const of = (figure: (round: Round) => number) => median(rounds.map(figure)).toFixed(1);
  const lost = rounds.reduce((sum, { payments }) => sum + payments.lost, 0);
  return `p50 ${of(({ payments }) => payments.p50Ms)} ms, p99 ${of(({ payments }) => payments.p99Ms)} ms, ${of(({ deliveriesASecond }) => deliveriesASecond)} deliveries and ${of(({ readASecond }) => readASecond)} read a second, ${of(({ residentMb }) => residentMb)} MB resident, ${lost} lost`;
}

/** The settings of a service whose store has so many settled payments, and an endpoint that has got none of them. */
async function filledStores(opened: Opened, deployment: Deployment, count: number) {
  const environment: Record<string, string> =
    deployment === 'embedded'
      ? { DATA_DIR: join(await temporaryFolder(opened), 'data') }
      : { REDIS_URL: (await openRedis(opened)).url, DATABASE_URL: (await openPostgres(opened)).url };
  // It makes the tables.
  await (await openProgram(opened, SERVICE, environment)).close();
  const settledFrom = Date.now() - NEWEST_AGE_MS - count * 500;
  for (const change of [settledPayments(count, settledFrom), AT_OLDEST, ANALYZE]) {
    await changeStored({ environment }, change);
  }
  return environment;
}

/** Takes everything at once, so that the service sets the pace. */
async function openReceiver(opened: Opened) {
  let taken = 0;
  const server = createServer((request, response) => {
    request.resume().once('end', () => {
      taken += 1;
      response.writeHead(204).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  await opened.keep({ close: () => server.closeAllConnections() });
  const { port } = server.address() as AddressInfo;
  const endpoint = {
    name: 'shop',
    url: `http://127.0.0.1:${port}/`,
    secrets: [newWebhookSecret()],
    private: true as const,
  };
  return { endpoint, taken: () => taken };
}

async function untilRests(taken: () => number): Promise<void> {
  let before: number;
  do {
    before = taken();
    await pause(REST_MS);
  } while (taken() > before);
}

/** Reads page after page, and begins anew when it has read everything. */
function createReader(url: string) {
  let query = '';
  let read = 0;
  return {
    read: () => read,
    async readOn(): Promise<void> {
      const answer = await ask(`${url}/api/settlements?limit=${PAGE}${query}`);
      if (answer.status !== 200) throw new Error(`a page was answered with ${answer.status}: ${answer.text}`);
      const { settlements, next } = answer.json<ShownSettlements>();
      read += settlements.length;
      query = settlements.length < PAGE ? '' : `&after=${next}`;
    },
  };
}

interface Subject {
  readonly client: OpenLoopClient;
  readonly receiver: { taken(): number };
  readonly reader: ReturnType<typeof createReader> | undefined;
}

async function measureRound(
  pid: number,
  { client, receiver, reader }: Subject,
  rate: number,
  options: Options,
): Promise<Round> {
  const { seconds, connections } = options;
  const all = seconds + UNMEASURED_SECONDS;
  await client.run({ mix: ['key'], count: Math.ceil(rate * all * SPARE_KEYS), connections });
  let isOver = false;
  const reading = (async () => {
    while (reader && !isOver) await reader.readOn();
  })();
  const [takenBefore, readBefore, begunAt] = [receiver.taken(), reader?.read() ?? 0, performance.now()];
  const payments = await client.run({
    ...{ mix: ['pay'], rate, connections, seconds: all, unmeasuredSeconds: UNMEASURED_SECONDS },
  });
  const tookSeconds = (performance.now() - begunAt) / 1000;
  isOver = true;
  await reading;
  return {
    payments,
    residentMb: residentMbOf(pid),
    deliveriesASecond: (receiver.taken() - takenBefore) / tookSeconds,
    readASecond: ((reader?.read() ?? 0) - readBefore) / tookSeconds,
  };
}
