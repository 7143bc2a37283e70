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
import { setImmediate as nextStep } from 'node:timers/promises';
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
import { until } from '../../testkit/time/until.js';

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

const isRead = (socket: Socket) => service.otherEndOf(socket)?.bytesRead === socket.bytesWritten;

/** Until the service has read all that was sent on these connections, some of it in turns. */
const untilRead = (sockets: readonly Socket[]) => until('all bytes are read', 30_000, () => sockets.every(isRead));

/** Until the service has read all of it, or as much as it keeps of a request that waits, and has paused the connection. */
async function untilReadOrPaused(sockets: readonly Socket[]): Promise<void> {
  await until('all bytes are read, or no more of them', 30_000, () =>
    sockets.every((socket) => isRead(socket) || service.otherEndOf(socket)?.isPaused()),
  );
  // The chunks of one read are joined by the end of the step of the event loop.
  await nextStep();
}

function postBatch({ headers }: typeof attacker, bytes = GOOD_BATCH.length) {
  return ask(`${service.url}/api/transactions/batch`, {
    method: 'POST',
    headers: { ...headers, 'Content-Type': 'application/json' },
    body: GOOD_BATCH.padEnd(bytes),
  });
}

/**
 * As the attacker, whose whole part is free: a batch of full length is created while the others that fit are there. These are answered at the
 * end, so that their bytes are given back too.
 */
async function expectAllFree(): Promise<void> {
  await until('the bytes are given back', 5_000, async () => {
    const sockets = await inParallel(BATCHES_OF_A_CLIENT - 1, 4, () =>
      withholdLastByte(service.port, batchRoute(attacker.headers)),
    );
    const isAnswered = ({ bytesRead, closed }: Socket) => bytesRead > 0 || closed;
    // A body is refused as long as bytes of an earlier one count.
    await until('each body is read or refused', 10_000, () =>
      sockets.every((socket) => isRead(socket) || isAnswered(socket)),
    );
    const { status } = await postBatch(attacker, BATCH_LIMIT_BYTES);
    const fits = status === 201 && !sockets.some(isAnswered);
    for (const socket of sockets) socket.write(' ');
    await until('each body is answered', 10_000, () => sockets.every(isAnswered));
    for (const socket of sockets) socket.destroy();
    return fits;
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

/** Connections of the attacker with bodies that never end, which have its whole part; any beyond these are refused. */
async function fillPart(count: number, route = batchRoute(attacker.headers)): Promise<readonly Socket[]> {
  // Otherwise bytes of an earlier connection may count, and be given back after a body was refused for them.
  await expectAllFree();
  const sockets = await inParallel(count, count, () => withholdLastByte(service.port, route));
  for (const socket of sockets) keep(socket);
  const isClosed = (socket: Socket) =>
    socket.closed || (socket.bytesRead > 0 && service.otherEndOf(socket) === undefined);
  await until('each body is read, or its connection is closed', 10_000, () =>
    sockets.every((socket) => isRead(socket) || isClosed(socket)),
  );
  expectError(await postBatch(attacker), 503, REFUSED);
  return sockets;
}

test('a client with too many bodies that never end is refused, and others are served', async () => {
  await fillPart(BATCHES_OF_A_CLIENT + 2);
  const answer = await refusalOfUnended(service.port, batchRoute(attacker.headers));
  expectError(answer, 503, REFUSED);
  expect(answer.headers).toMatchObject({ 'retry-after': '2', connection: 'close' });
  const refused = sumOf(await scrape(service.url, attacker.headers), 'idempay_requests_refused_total', {
    reason: 'bodies',
  });
  expect(refused).toBeGreaterThanOrEqual(3);

  expect((await postBatch(other, BATCH_LIMIT_BYTES)).status).toBe(201);
  // Payments have a part of their own: also payments of the same client.
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
    // They count, although none of them can be answered yet.
    const sockets = await fillPart(BATCHES_OF_A_CLIENT, { ...route, startLine: `${behind}${route.startLine}` });
    for (const socket of sockets) socket.resetAndDestroy();
    await expectAllFree();
  }
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
  const sockets: Socket[] = [];
  for (let connection = 0; connection < 2; connection += 1) {
    sockets.push(keep(await sendTinyChunks(service.port, batchRoute(attacker.headers), 200_000)));
  }
  await untilRead(sockets);
  // As a list of chunks 150 MB.
  expect(usedMegabytes() - before).toBeLessThan(20);
});

test.each([
  ['no body is read', LIVE, 20, untilRead],
  // The live view has 32 places.
  ['the request waits for earlier answers', `${PENDING}POST /api/transactions/batch HTTP/1.1`, 8, untilReadOrPaused],
] as const)('chunks of one byte cost little where %s', async (_where, startLine, connections, untilTaken) => {
  const before = usedMegabytes();
  const sockets: Socket[] = [];
  for (let connection = 0; connection < connections; connection += 1) {
    const route = { ...batchRoute(attacker.headers), startLine };
    sockets.push(keep(await sendTinyChunks(service.port, route, 20_000)));
  }
  await untilTaken(sockets);
  // As a list of chunks 1.4 to 7 MB each.
  expect((usedMegabytes() - before) / connections).toBeLessThan(0.6);
});

test('the rest of a body that was refused is read and thrown away, and its connection is closed', async () => {
  await fillPart(BATCHES_OF_A_CLIENT + 2);
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
