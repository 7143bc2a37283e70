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
import { GOOD_LENGTH, openConnection, requestText, statusesIn } from '../../testkit/client/raw-http.js';
import { inParallel } from '../../testkit/concurrency.js';
import { usedMegabytes } from '../../testkit/heap.js';
import { type ServiceInProcess, serveInProcess } from '../../testkit/processes/service-in-process.js';
import { until } from '../../testkit/time/until.js';

const attacker = credentialOf('attacker', ['transactions:write', 'payments:write', 'metrics']);
const other = credentialOf('other', ['transactions:write', 'payments:write']);
const stranger = { headers: { Authorization: 'Bearer idempay_no-such-key' } };
/** Batches that one client can have at once. */
const BATCHES_OF_A_CLIENT = 4;
const REFUSED = /^Too many request bodies .* nothing was begun/;
const GOOD_BATCH = '{"transactions":[{"fromAccount":"a","toAccount":"b","amount":1}]}';

let folder: string;
let service: ServiceInProcess;
/** Its payments do not end, so that what follows them on their connection waits. */
let endless: ServiceInProcess;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'idempay-bodies-'));
  await writeFile(join(folder, 'keys.json'), keyFileOf(attacker, other));
  const environment = { AUTH: 'required', API_KEYS_FILE: join(folder, 'keys.json') };
  service = await serveInProcess({ ...environment, DATA_DIR: join(folder, 'usual') });
  endless = await serveInProcess({ ...environment, DATA_DIR: join(folder, 'endless'), PROCESSOR_DELAY_MS: '600000' });
});
afterAll(async () => {
  await Promise.all([service.stop(50), endless.stop(50)]);
  await rm(folder, { recursive: true });
});

const keep = (socket: Socket) => {
  onTestFinished(() => void socket.destroy());
  return socket;
};

const otherEndOf = (socket: Socket) => (socket.remotePort === endless.port ? endless : service).otherEndOf(socket);
const isRead = (socket: Socket) => otherEndOf(socket)?.bytesRead === socket.bytesWritten;

/** Until the service has read all that was sent on these connections, some of it in turns. */
const untilRead = (sockets: readonly Socket[]) => until('all bytes are read', 30_000, () => sockets.every(isRead));

/** Until the service has read all of it, or as much as it keeps of a request that waits, and has paused the connection. */
async function untilReadOrPaused(sockets: readonly Socket[]): Promise<void> {
  await until('all bytes are read, or no more of them', 30_000, () =>
    sockets.every((socket) => isRead(socket) || otherEndOf(socket)?.isPaused()),
  );
  // The chunks of one read are joined by the end of the step of the event loop.
  await nextStep();
}

function postBatch({ headers }: typeof attacker, bytes = GOOD_BATCH.length, { url } = service) {
  return ask(`${url}/api/transactions/batch`, {
    method: 'POST',
    headers: { ...headers, 'Content-Type': 'application/json' },
    body: GOOD_BATCH.padEnd(bytes),
  });
}

/**
 * As the attacker, whose whole part is free: a batch of full length is created while the others that fit are there. These are answered at the
 * end, so that their bytes are given back too.
 */
async function expectAllFree(of = service): Promise<void> {
  await until('the bytes are given back', 5_000, async () => {
    const sockets = await inParallel(BATCHES_OF_A_CLIENT - 1, 4, () =>
      withholdLastByte(of.port, batchRoute(attacker.headers)),
    );
    const isAnswered = ({ bytesRead, closed }: Socket) => bytesRead > 0 || closed;
    // A body is refused as long as bytes of an earlier one count.
    await until('each body is read or refused', 10_000, () =>
      sockets.every((socket) => isRead(socket) || isAnswered(socket)),
    );
    const { status } = await postBatch(attacker, BATCH_LIMIT_BYTES, of);
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
async function fillPart(
  count: number,
  routeOf = () => batchRoute(attacker.headers),
  of = service,
): Promise<readonly Socket[]> {
  // Otherwise bytes of an earlier connection may count, and be given back after a body was refused for them.
  await expectAllFree(of);
  const sockets = await inParallel(count, count, () => withholdLastByte(of.port, routeOf()));
  for (const socket of sockets) keep(socket);
  const isClosed = (socket: Socket) => socket.closed || (socket.bytesRead > 0 && otherEndOf(socket) === undefined);
  await until('each body is read, or its connection is closed', 10_000, () =>
    sockets.every((socket) => isRead(socket) || isClosed(socket)),
  );
  expectError(await postBatch(attacker, GOOD_BATCH.length, of), 503, REFUSED);
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

/** A payment by the attacker, as it is sent before another request on the same connection. */
function pendingPayment(): string {
  orders += 1;
  const { Authorization } = attacker.headers;
  const headers = [`Authorization: ${Authorization}`, 'Content-Type: application/json', GOOD_LENGTH];
  return requestText(`POST /api/payment?reference=order-${orders} HTTP/1.1`, headers, GOOD_BODY);
}

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

test('the bytes of a body behind a payment that goes on are given back when its connection ends', async () => {
  const route = batchRoute(attacker.headers);
  const behind = () => ({ ...route, startLine: `${pendingPayment()}${route.startLine}` });
  for (let round = 0; round < 3; round += 1) {
    // They count, although none of them can be answered yet.
    const sockets = await fillPart(BATCHES_OF_A_CLIENT, behind, endless);
    for (const socket of sockets) socket.resetAndDestroy();
    await expectAllFree(endless);
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
  ['no body is read', 0, 'GET /api/live HTTP/1.1', attacker, 20, untilRead],
  ['the request waits for earlier answers', 4, 'POST /api/transactions/batch HTTP/1.1', attacker, 8, untilReadOrPaused],
  // Node dumps the body of a request only at the end of its answer.
  ['a refusal waits for earlier answers', 1, 'POST /api/transactions/batch HTTP/1.1', stranger, 8, untilReadOrPaused],
  ['the refusal of a bad path waits for them', 1, 'POST /api/%zz HTTP/1.1', stranger, 8, untilReadOrPaused],
  ['the refusal of an expectation waits for them', 1, 'POST / HTTP/1.1\r\nExpect: x', stranger, 8, untilReadOrPaused],
  ['the request is never begun', 8, 'POST /api/transactions/batch HTTP/1.1', attacker, 8, untilReadOrPaused],
] as const)('chunks of one byte cost little where %s', async (_, pending, startLine, who, connections, untilTaken) => {
  const earlier = () => Array.from({ length: pending }, pendingPayment).join('');
  const before = usedMegabytes();
  const sockets: Socket[] = [];
  for (let connection = 0; connection < connections; connection += 1) {
    const route = { ...batchRoute(who.headers), startLine: `${earlier()}${startLine}` };
    sockets.push(keep(await sendTinyChunks(endless.port, route, 20_000)));
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
