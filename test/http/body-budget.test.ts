/**
 * Bug: a body in a million chunks of one byte cost 370 MB, and 300 batches without their last byte 300 MB.
 * Cause: every chunk of a body was kept as an object until the body was whole, and nothing bounded what all bodies have together.
 * Fix: one buffer for each body, and a budget for the bytes of all.
 */
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import {
  BATCH_LIMIT_BYTES,
  batchRoute,
  refusalOfUnended,
  sendTinyChunks,
  withholdLastByte,
} from '../../testkit/client/body-attacks.js';
import { credentialOf, keyFileOf } from '../../testkit/client/credentials.js';
import { expectError } from '../../testkit/client/error-body.js';
import { ask } from '../../testkit/client/http-client.js';
import { scrape, sumOf } from '../../testkit/client/metrics.js';
import { expectFirst } from '../../testkit/client/payment-answers.js';
import { GOOD_BODY } from '../../testkit/client/payment-bodies.js';
import { openConnection, requestText, statusesIn } from '../../testkit/client/raw-http.js';
import { inParallel } from '../../testkit/concurrency.js';
import { usedMegabytes } from '../../testkit/heap.js';
import { type ServiceInProcess, serveInProcess } from '../../testkit/processes/service-in-process.js';
import { pause, until } from '../../testkit/time/until.js';

const attacker = credentialOf('attacker', ['transactions:write', 'payments:write', 'metrics']);
const other = credentialOf('other', ['transactions:write', 'payments:write']);
/** Batches that one client can have at once. */
const BATCHES_OF_A_CLIENT = 4;
const REFUSED = /^Too many request bodies .* nothing was begun/;
const GOOD_BATCH = '{"transactions":[{"fromAccount":"a","toAccount":"b","amount":1}]}';

let folder: string;
let service: ServiceInProcess;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'idempay-bodies-'));
  await writeFile(join(folder, 'keys.json'), keyFileOf(attacker, other));
  service = await serveInProcess({
    DATA_DIR: folder,
    AUTH: 'required',
    API_KEYS_FILE: join(folder, 'keys.json'),
  });
});
afterAll(async () => {
  await service.stop(50);
  await rm(folder, { recursive: true });
});

const keep = (socket: Socket) => {
  onTestFinished(() => void socket.destroy());
  return socket;
};

function postBatch({ headers }: typeof attacker, bytes = GOOD_BATCH.length) {
  return ask(`${service.url}/api/transactions/batch`, {
    method: 'POST',
    headers: { ...headers, 'Content-Type': 'application/json' },
    body: GOOD_BATCH.padEnd(bytes),
  });
}

/** As the attacker, whose whole part is free: a batch of full length is created while the others that fit are there. */
async function expectAllFree(): Promise<void> {
  await until('the bytes are given back', 5_000, async () => {
    const sockets = await inParallel(BATCHES_OF_A_CLIENT - 1, 4, () =>
      withholdLastByte(service.port, batchRoute(attacker.headers)),
    );
    await pause(50);
    const { status } = await postBatch(attacker, BATCH_LIMIT_BYTES);
    for (const socket of sockets) socket.destroy();
    return status === 201;
  });
}

/** Paid under a reference, which needs no key. */
let orders = 0;
function payOrder({ headers }: typeof attacker) {
  orders += 1;
  return ask(`${service.url}/api/payment?reference=order-${orders}`, {
    method: 'POST',
    headers: { ...headers, 'Content-Type': 'application/json' },
    body: GOOD_BODY,
  });
}

/** Connections of the attacker with bodies that never end, two of which were refused. */
async function fillPart(): Promise<void> {
  const count = BATCHES_OF_A_CLIENT + 2;
  const sockets = await inParallel(count, count, () => withholdLastByte(service.port, batchRoute(attacker.headers)));
  await until('two are refused', 10_000, () => sockets.filter(({ bytesRead }) => bytesRead > 0).length >= 2);
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });
}

test('a client with too many bodies that never end is refused, and others are served', async () => {
  await fillPart();
  const answer = await refusalOfUnended(service.port, batchRoute(attacker.headers));
  expectError(answer, 503, REFUSED);
  expect(answer.headers).toMatchObject({ 'retry-after': '2', connection: 'close' });
  const refused = sumOf(await scrape(service.url, attacker.headers), 'idempay_requests_refused_total', {
    reason: 'bodies',
  });
  expect(refused).toBeGreaterThanOrEqual(3);

  expect((await postBatch(other, BATCH_LIMIT_BYTES)).status).toBe(201);
  // Payments have a part of their own: also those of the same client.
  for (const client of [attacker, other]) expectFirst(await payOrder(client));
});

/** Answers that stay open, so that what follows them on the connection waits. */
const LIVE = 'GET /api/live HTTP/1.1';
const PENDING = requestText(LIVE, [`Authorization: ${attacker.headers.Authorization}`]).repeat(4);

test.each<[what: string, end: (socket: Socket) => void]>([
  ['resets its connections', (socket) => socket.resetAndDestroy()],
  ['ends its sending side', (socket) => socket.end()],
  ['sends no JSON', (socket) => socket.write('x')],
  ['sends two requests behind one another, and is gone', (socket) => socket.write(' GET', () => socket.destroy())],
])('the bytes of a client are given back when it %s', async (_what, end) => {
  for (let round = 0; round < 3; round += 1) {
    const sockets = await inParallel(BATCHES_OF_A_CLIENT, 4, () =>
      withholdLastByte(service.port, batchRoute(attacker.headers)),
    );
    for (const socket of sockets) end(keep(socket));
    await expectAllFree();
  }
});

test('the bytes of a body behind an answer that stays open are given back when its connection ends', async () => {
  const behind = requestText(LIVE, [`Authorization: ${attacker.headers.Authorization}`]);
  const route = batchRoute(attacker.headers);
  for (let round = 0; round < 3; round += 1) {
    const sockets = await inParallel(BATCHES_OF_A_CLIENT, 4, () =>
      withholdLastByte(service.port, { ...route, startLine: `${behind}${route.startLine}` }),
    );
    await pause(100);
    for (const socket of sockets) socket.resetAndDestroy();
  }
  await expectAllFree();
});

test('a body of somebody without credentials is not kept', async () => {
  const strangers = batchRoute({ Authorization: 'Bearer idempay_no-such-key' });
  const before = usedMegabytes();
  const sockets = await inParallel(60, 20, () => withholdLastByte(service.port, strangers));
  for (const socket of sockets) keep(socket);
  expect(usedMegabytes() - before).toBeLessThan(20);
  expectError(await refusalOfUnended(service.port, strangers), 401);
});

test('a body in chunks of one byte costs no more than its bytes', async () => {
  const before = usedMegabytes();
  for (let connection = 0; connection < 2; connection += 1) {
    keep(await sendTinyChunks(service.port, batchRoute(attacker.headers), 200_000));
  }
  await pause(500);
  // As a list of chunks 150 MB.
  expect(usedMegabytes() - before).toBeLessThan(20);
});

test.each([
  ['no body is read', LIVE, 20],
  // The live view has 32 places.
  ['the request waits for earlier answers', `${PENDING}POST /api/transactions/batch HTTP/1.1`, 8],
])('chunks of one byte cost little where %s', async (_where, startLine, connections) => {
  const before = usedMegabytes();
  for (let connection = 0; connection < connections; connection += 1) {
    keep(await sendTinyChunks(service.port, { ...batchRoute(attacker.headers), startLine }, 20_000));
  }
  await pause(500);
  // As a list of chunks 1.4 to 7 MB each.
  expect((usedMegabytes() - before) / connections).toBeLessThan(0.6);
});

test('the rest of a body that was refused is read and thrown away, and its connection is closed', async () => {
  await fillPart();
  const socket = keep(
    openConnection(
      service.port,
      requestText('POST /api/transactions/batch HTTP/1.1', [
        ...batchRoute(attacker.headers).headers,
        `Content-Length: ${BATCH_LIMIT_BYTES}`,
      ]),
    ),
  ).setEncoding('latin1');
  let received = '';
  socket.on('data', (text) => {
    received += text;
  });
  socket.write(' '.repeat(BATCH_LIMIT_BYTES));
  await once(socket, 'close');
  expect(statusesIn(received)).toEqual([503]);
});
