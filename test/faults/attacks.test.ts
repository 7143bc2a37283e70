import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { Agent } from 'node:http';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Scope } from '#idempay/access/scopes.js';
import { batchRoute, sendTinyChunks, withholdLastByte } from '../../testkit/client/body-attacks.js';
import { type Credential, credentialOf, keyFileOf } from '../../testkit/client/credentials.js';
import { type Answer, ask, pay, sendJson } from '../../testkit/client/http-client.js';
import { expectFirst } from '../../testkit/client/payment-answers.js';
import { openConnection, requestText } from '../../testkit/client/raw-http.js';
import { createdIn, draft, postBatch } from '../../testkit/client/transactions.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import type { Service } from '../../testkit/processes/service.js';
import { changeStored, settledPayments, storeTransactions } from '../../testkit/protocol/stored-rows.js';
import { patience } from '../../testkit/time/patience.js';
import { pause } from '../../testkit/time/until.js';

const HEAP = '--max-old-space-size=512';
const ATTACK_MS = 60_000;
/** Payers and probes come before the attackers, as in a process that has been running. */
const BEFORE_MS = 3_000;
const PAYERS = 100;
const PAY_EVERY_MS = 500;
const LOOK_EVERY_MS = 100;
/** All but one in a hundred: this process, which sends the attacks, may itself be late to see an answer. */
const LIVE_WITHIN_MS = patience(1_000);
const LATE_SHARE = 0.01;
/**
 * A round of the others is some tens of pages: 4.2 s were seen on two slow processors, which the servers share. Before, such a list was
 * refused after ten seconds.
 */
const LISTED_WITHIN_MS = patience(8_000);
/** Each some hundred bytes, so that a list of all of them has some 14 MB: more than is read ahead and what the kernel holds. */
const TRANSACTIONS = 22_000;
const PAYMENTS = 2_000;
const SMALL_LIST = 300;
const UNENDED_BATCHES = 300;
const UNENDED_MS = 3_000;
const TINY_BODIES = 4;
const TINY_CHUNKS = 250_000;
const LONG_NUMBER = 900_000;

/** The bytes that a connection sends at once, and whether it reads the beginning of the answer; it is opened again when it is cut off. */
interface Attack {
  readonly connections: number;
  readonly bytes: (authorization: string) => string;
  readonly reads: 'nothing' | 'the beginning';
  /** So long each connection is kept. */
  readonly forMs: number;
}

const reads = (path: string, authorization: string) =>
  requestText(`GET ${path} HTTP/1.1`, [`Authorization: ${authorization}`]);
const filling = (text: string) => text.repeat(Math.floor(65_536 / text.length));

/** By the part of the service that they are meant to use up. */
const ATTACKS: Readonly<Record<string, Attack>> = {
  'payment lists behind one another': {
    ...{ connections: 3, reads: 'nothing', forMs: 5_000 },
    bytes: (authorization) => filling(reads('/api/payments?limit=500', authorization)),
  },
  'metrics behind one another': {
    ...{ connections: 3, reads: 'nothing', forMs: 5_000 },
    bytes: (authorization) => filling(reads('/metrics', authorization)),
  },
  'lists behind one another': {
    ...{ connections: 1, reads: 'nothing', forMs: 5_000 },
    bytes: (authorization) => reads('/api/transactions', authorization).repeat(200),
  },
  'lists that are not read': {
    ...{ connections: 40, reads: 'the beginning', forMs: ATTACK_MS },
    bytes: (authorization) => reads('/api/transactions', authorization),
  },
};

/** Bodies, each again and again until the attack is over. */
const BODY_ATTACKS: Readonly<Record<string, (port: number, headers: Credential['headers']) => Promise<void>>> = {
  'batches without their last byte': async (port, headers) => {
    const sockets = await Promise.all(
      Array.from({ length: UNENDED_BATCHES }, () => withholdLastByte(port, batchRoute(headers))),
    );
    await pause(UNENDED_MS);
    for (const socket of sockets) socket.destroy();
  },
  'chunks of one byte': async (port, headers) => {
    const sockets = await Promise.all(
      Array.from({ length: TINY_BODIES }, () => sendTinyChunks(port, batchRoute(headers), TINY_CHUNKS)),
    );
    await pause(UNENDED_MS);
    for (const socket of sockets) socket.destroy();
  },
  'numbers of many digits': async (port, headers) => {
    const body = `{"transactions":[{"fromAccount":"a","toAccount":"b","amount":1.${'0'.repeat(LONG_NUMBER)}1}]}`;
    const { status } = await sendJson(`http://127.0.0.1:${port}/api/transactions/batch`, 'POST', body, { ...headers });
    // 408: it had to wait for the other bodies of its client.
    expect([400, 408, 503]).toContain(status);
  },
};

/**
 * Bug: each of these ended a process with 512 MB, or denied lists, payments and probes to everybody else. Causes and fixes:
 * `unit/pipelined-requests`, `unit/list-turns`, `http/body-budget`, `unit/long-texts`.
 */
describeDeployments('a process with half a gigabyte that is attacked for a minute', (deployment) => {
  test('refuses no payer, and lists and probes are answered', async () => {
    const stores = await deployment.open();
    const folder = await mkdtemp(join(tmpdir(), 'idempay-attacks-'));
    onTestFinished(async () => {
      await stores.close();
      await rm(folder, { recursive: true });
    });
    await (await stores.start()).stop();
    await storeTransactions(stores, TRANSACTIONS);
    await changeStored(stores, settledPayments(PAYMENTS, Date.now() - 3_600_000));

    const READING: readonly Scope[] = ['operations', 'transactions:read', 'metrics'];
    const payers = Array.from({ length: PAYERS }, (_, index) => credentialOf(`payer-${index}`, ['payments:write']));
    const attackers = Object.keys(ATTACKS).map((_, index) => credentialOf(`attacker-${index}`, READING));
    const writers = Object.keys(BODY_ATTACKS).map((_, index) =>
      credentialOf(`writer-${index}`, ['transactions:write']),
    );
    const reader = credentialOf('reader', ['transactions:read', 'transactions:write']);
    const keys = join(folder, 'keys.json');
    await writeFile(keys, keyFileOf(...payers, ...attackers, ...writers, reader), { mode: 0o600 });
    const service = await stores.start({ NODE_OPTIONS: HEAP, AUTH: 'required', API_KEYS_FILE: keys });
    const agent = new Agent({ keepAlive: true });
    onTestFinished(() => agent.destroy());
    const rows = Array.from({ length: SMALL_LIST }, () => draft({ fromAccount: 'small' }));
    createdIn(await postBatch(service.url, rows, reader.headers));

    const begin = pause(BEFORE_MS);
    const end = performance.now() + BEFORE_MS + ATTACK_MS;
    const isOver = () => performance.now() > end;
    const took = { live: [] as number[], listed: [] as number[] };
    await Promise.all([
      ...Object.values(ATTACKS).map((attack, index) =>
        begin.then(() => attackWith(service, attack, attackers[index] as Credential, isOver)),
      ),
      ...Object.values(BODY_ATTACKS).map(async (attack, index) => {
        await begin;
        while (!isOver()) await attack(service.port, (writers[index] as Credential).headers);
      }),
      ...payers.map((payer, index) =>
        payUntil(service, payer, { agent, first: (index * PAY_EVERY_MS) / PAYERS, isOver }),
      ),
      lookUntil(isOver, async () => {
        const { ms, answer } = await timed(() => ask(`${service.url}/livez`, { agent }));
        expect(answer.status).toBe(200);
        took.live.push(ms);
      }),
      lookUntil(isOver, async () => {
        const list = () => ask(`${service.url}/api/transactions?from=small`, { agent, headers: reader.headers });
        const { ms, answer } = await timed(list);
        expect([answer.status, answer.json<unknown[]>().length]).toEqual([200, SMALL_LIST]);
        took.listed.push(ms);
      }),
    ]);
    const late = took.live.filter((ms) => ms >= LIVE_WITHIN_MS);
    expect.soft(late.length, `late: ${late}`).toBeLessThanOrEqual(LATE_SHARE * took.live.length);
    expect.soft(Math.max(...took.live, ...took.listed)).toBeLessThan(LISTED_WITHIN_MS);
    expect((await service.stop()).code).toBe(0);
  });
});

/** Keeps this number of connections open, whatever the service does with them. */
async function attackWith(
  { port }: Service,
  { connections, bytes, reads, forMs }: Attack,
  { headers }: Credential,
  isOver: () => boolean,
): Promise<void> {
  await inParallel(connections, connections, async () => {
    while (!isOver()) {
      const socket = openConnection(port, bytes(headers.Authorization));
      if (reads === 'nothing') socket.pause();
      else socket.once('data', () => socket.pause());
      await closedOrKept(socket, forMs, isOver);
      socket.destroy();
    }
  });
}

async function closedOrKept(socket: Socket, forMs: number, isOver: () => boolean): Promise<void> {
  const end = performance.now() + forMs;
  // Not `once` of `node:events`, which rejects if the connection is reset.
  while (!socket.closed && !isOver() && performance.now() < end) await pause(LOOK_EVERY_MS);
}

async function payUntil(
  { url }: Service,
  { headers }: Credential,
  { agent, first, isOver }: { agent: Agent; first: number; isOver: () => boolean },
): Promise<void> {
  await pause(first);
  while (!isOver()) {
    const key = await ask(`${url}/api/server-generated/generate-key`, { agent, headers });
    expect(key.status).toBe(200);
    expectFirst(await pay(url, key.json<string>(), undefined, { agent, headers }));
    await pause(PAY_EVERY_MS);
  }
}

async function lookUntil(isOver: () => boolean, look: () => Promise<void>): Promise<void> {
  while (!isOver()) {
    await look();
    await pause(LOOK_EVERY_MS);
  }
}

async function timed(asking: () => Promise<Answer>): Promise<{ ms: number; answer: Answer }> {
  const begun = performance.now();
  const answer = await asking();
  return { ms: performance.now() - begun, answer };
}
