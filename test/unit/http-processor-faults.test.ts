import dns from 'node:dns';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { CONNECTIONS_MAX_AGE_MS, createExchanges } from '#idempay/payments/processors/exchange.js';
import {
  MOST_CONNECTIONS,
  processorAt,
  startByteServer,
  startHttpServer,
} from '../../testkit/servers/processor-servers.js';
import { freePort } from '../../testkit/servers/server-process.js';
import { HandClock } from '../../testkit/time/hand-clock.js';
import { patience } from '../../testkit/time/patience.js';
import { until } from '../../testkit/time/until.js';

/** Short, because tests wait for its end, and long enough for a request to be written, also on a slow machine. */
const SHORT_MS = patience(400);
/** Long enough for a request on each of the connections. */
const BURST_MS = patience(1_000);
const DEADLINE_MS = 20_000;
const BODY = '{"status":"succeeded"}';
const OK = 'HTTP/1.1 200 OK\r\n';
const SUCCESS = `${OK}content-length: ${BODY.length}\r\n\r\n${BODY}`;
const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n`;
const LONGEST_REPLY_BYTES = 64 * 1024;

const SUCCEEDED = { state: 'succeeded' };
const unknown = (cause: string | RegExp) => ({ state: 'unknown', cause: expect.stringMatching(cause) });
const notSent = (cause: string | RegExp) => ({ state: 'not sent', cause: expect.stringMatching(cause) });

/** Both calls to a processor, of which a charge needs its key alone. */
function callsTo(...at: Parameters<typeof processorAt>) {
  const processor = processorAt(...at);
  const rest = { transactionId: 'TXN1', amount: '1.00', currency: 'USD' };
  return { ...processor, charge: (key = 'key') => processor.charge({ key, ...rest }) };
}

/** A processor over bytes: `answer` writes to the socket of each request. */
async function atBytes(answer: Parameters<typeof startByteServer>[0], timeoutMs?: number) {
  const server = await startByteServer(answer);
  return { server, ...callsTo(server, timeoutMs) };
}

async function atHttp(answer: Parameters<typeof startHttpServer>[0], timeoutMs?: number) {
  const server = await startHttpServer(answer);
  return { server, ...callsTo(server, timeoutMs) };
}

/** How far a question has come that its deadline ends, in this order. */
const PROGRESS = ['the request was not sent', 'no reply came', 'the reply did not end'];

/**
 * Asks again as long as the deadline comes before the question has got so far, as it may on a slow machine. If `progress` is omitted, the
 * deadline is not to come at all.
 */
function inTime<Result extends { readonly state: string }>(ask: () => Promise<Result>, progress = ''): Promise<Result> {
  const isTooEarly = (cause: string) =>
    PROGRESS.slice(0, progress ? PROGRESS.indexOf(progress) : undefined).some((each) =>
      cause.startsWith(`${each} within`),
    );
  return until('an answer in time', DEADLINE_MS, async () => {
    const result = await ask();
    return !isTooEarly('cause' in result ? String(result.cause) : '') && result;
  });
}

/** As SIGSTOP and SIGCONT do, seen from inside: the clock goes on and nothing else does. */
function stopTheProcess(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

describe('a processor that is too slow', () => {
  test.each([
    ['says nothing', '', '', 'no reply came'],
    ['says that it goes on', 'HTTP/1.1 103 Early Hints\r\n\r\n', '', 'no reply came'],
    ['sends its head in drops', OK, 'x-more: and more\r\n', 'no reply came'],
    ['ends one byte early', SUCCESS.slice(0, -1), '', 'the reply did not end'],
    ['sends its body in drops', CHUNKED, '1\r\n \r\n', 'the reply did not end'],
  ])('and %s leaves both calls unknown, and their connections closed', async (_what, first, drop, progress) => {
    const { server, charge, lookUp, alarms } = await atBytes((socket) => {
      socket.write(first);
      const dripping = setInterval(() => socket.write(drop), SHORT_MS / 20);
      socket.on('close', () => clearInterval(dripping));
    }, SHORT_MS);
    const cause = `${progress} within ${SHORT_MS} ms`;
    expect(await inTime(charge, progress)).toEqual(unknown(cause));
    expect(await inTime(() => lookUp('key'), progress)).toEqual(unknown(cause));
    await until('the connections to be closed', DEADLINE_MS, () => server.asked.every((socket) => socket.closed));
    expect(server.asked.length).toBeGreaterThanOrEqual(2);
    expect(new Set(server.asked).size).toBe(server.asked.length);
    expect(alarms).toEqual([]);
  });

  test('gets no charge that waited for a connection until its deadline, then or ever', async () => {
    let patient = true;
    const { server, charge } = await atHttp((response) => patient || response.end(BODY), BURST_MS);
    const references = Array.from({ length: 4 * MOST_CONNECTIONS }, (_, index) => `burst-${index}`);
    const charging = Promise.all(references.map(charge));
    await until('all connections', DEADLINE_MS, () => server.received.length >= MOST_CONNECTIONS);
    // Later the server may count one that the client has closed already.
    expect(server.mostAtOnce()).toBeLessThanOrEqual(MOST_CONNECTIONS);
    const results = await charging;
    const late = references.filter((_, index) => results[index]?.state === 'not sent');
    expect(results).toContainEqual(notSent(`the request was not sent within ${BURST_MS} ms`));

    // The connections that they waited for are free now, and take new charges.
    patient = false;
    await until('a charge to succeed', DEADLINE_MS, async () => (await charge()).state === 'succeeded');
    const sent = new Set(server.received.map(({ headers }) => headers['idempotency-key']));
    expect(late.filter((reference) => sent.has(reference))).toEqual([]);
  });

  test.each(['a new', 'a kept'])('gets no charge on %s connection of a stopped process', async (connection) => {
    const { server, charge } = await atBytes((socket) => socket.write(SUCCESS), SHORT_MS);
    const first = connection === 'a kept' ? ['first'] : [];
    for (const reference of first) expect(await inTime(() => charge(reference))).toEqual(SUCCEEDED);
    // After I/O, from which this goes on, the event loop comes to the connection first and to its timers later.
    await readFile(import.meta.filename);
    const stopped = charge('stopped');
    stopTheProcess(2 * SHORT_MS);
    expect(await stopped).toEqual(notSent('the request was not sent'));
    expect(await inTime(() => charge('later'))).toEqual(SUCCEEDED);
    expect([...new Set(server.references())]).toEqual([...first, 'later']);
  });
});

describe('a connection that breaks', () => {
  test.each([
    ['before the reply', ''],
    ['within the head', 'HTTP/1.1 200 O'],
    ['within the body', SUCCESS.slice(0, -1)],
    ['before the last chunk', `${CHUNKED}16\r\n${BODY}\r\n`],
  ])('%s leaves the outcome unknown, whether it ends or is reset, and nothing is sent again', async (_when, bytes) => {
    for (const end of ['end', 'resetAndDestroy'] as const) {
      const { server, charge, lookUp, alarms } = await atBytes((socket) => socket.write(bytes, () => socket[end]()));
      expect(await charge()).toEqual(unknown(/\w/));
      expect(await lookUp('key')).toEqual(unknown(/\w/));
      await nextTurn();
      expect(server.received).toHaveLength(2);
      expect(alarms).toEqual([]);
    }
  });

  test('when it is used again leaves the outcome unknown: the charge is not sent on another one', async () => {
    const answer = (socket: Socket, before: number) =>
      before === 1 ? socket.resetAndDestroy() : socket.write(SUCCESS);
    const { server, charge } = await atBytes(answer);
    expect(await charge('first')).toEqual(SUCCEEDED);
    await nextTurn();
    expect(await charge('second')).toEqual(unknown(/\w/));
    expect(await charge('third')).toEqual(SUCCEEDED);
    expect([server.references(), server.connections()]).toEqual([['first', 'second', 'third'], 2]);
  });

  test('while it is idle costs nothing: the next charge has a new one', async () => {
    const { server, charge } = await atBytes((socket) => socket.write(SUCCESS));
    expect(await charge()).toEqual(SUCCEEDED);
    for (const idle of server.asked) await once(idle.end(), 'close');
    expect(await charge()).toEqual(SUCCEEDED);
    expect(server.connections()).toBe(2);
  });

  test('before it is made, or because it speaks no TLS, has surely sent no charge; a look-up is unknown', async () => {
    const { charge, lookUp, alarms } = callsTo({ port: await freePort() });
    expect(await charge()).toEqual(notSent('ECONNREFUSED'));
    expect(await lookUp('key')).toEqual(unknown('ECONNREFUSED'));
    expect(alarms).toEqual([]);
    const server = await startHttpServer((response) => response.end(BODY));
    expect(await callsTo({ port: server.port, protocol: 'https:' }).charge()).toEqual(notSent(/SSL|TLS/));
    expect(server.received).toEqual([]);
  });
});

describe('a reply', () => {
  test.each([
    ['is not HTTP', 'hello\r\n\r\n'],
    ['has two lengths', `${OK}content-length: 22\r\ncontent-length: 5\r\n\r\n${BODY}`],
    ['has a broken chunk', `${CHUNKED}zz\r\n${BODY}\r\n0\r\n\r\n`],
    ['has a head without end', `${OK}x: ${'y'.repeat(40_000)}\r\n\r\n`],
    ['changes the protocol', 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'],
  ])('that %s is unknown, and its connection is not used again', async (_what, bytes) => {
    const { server, charge } = await atBytes((socket, before) => socket.write(before === 0 ? bytes : SUCCESS));
    expect(await charge()).toEqual(unknown(/\w/));
    expect(await charge()).toEqual(SUCCEEDED);
    expect([server.connections(), server.received.length]).toEqual([2, 2]);
  });

  test('may follow interim ones', async () => {
    const interim = 'HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n';
    const { charge } = await atBytes((socket) => socket.write(interim + SUCCESS));
    expect(await charge()).toEqual(SUCCEEDED);
  });

  test('may be as long as 64 KiB; of one byte more it is unknown, and its connection is closed', async () => {
    const longest = await atHttp((response) => response.end(BODY.padEnd(LONGEST_REPLY_BYTES)));
    expect(await longest.charge()).toEqual(SUCCEEDED);
    const body = BODY.padEnd(LONGEST_REPLY_BYTES + 1);
    for (const length of [`content-length: ${body.length}`, 'connection: close']) {
      const { server, charge } = await atBytes((socket) => socket.write(`${OK}${length}\r\n\r\n${body}`));
      expect(await charge()).toEqual(unknown('UND_ERR_RES_EXCEEDED_MAX_SIZE'));
      await until('the connections to be closed', DEADLINE_MS, () => server.asked.every((socket) => socket.closed));
    }
  });

  test('that redirects is unknown, and is not followed', async () => {
    const elsewhere = await startHttpServer((response) => response.end(BODY));
    const location = `http://127.0.0.1:${elsewhere.port}/charges`;
    const { charge, lookUp, alarms } = await atHttp((response) => response.writeHead(307, { location }).end(BODY));
    expect(await charge()).toEqual(unknown('307'));
    expect(await lookUp('key')).toEqual(unknown('307'));
    expect(elsewhere.connections()).toBe(0);
    expect(alarms).toEqual([]);
  });

  test('that is encoded is unknown', async () => {
    const { charge } = await atHttp((response) => response.setHeader('content-encoding', 'gzip').end(gzipSync(BODY)));
    expect(await charge()).toEqual(unknown('encoded'));
    const chain = await atHttp((response) => response.setHeader('content-encoding', 'identity, x').end(BODY));
    expect(await chain.charge()).toEqual(unknown('encoded'));
  });

  test('that no request asked for is not taken for the next one', async () => {
    const declined = 'HTTP/1.1 402 Payment Required\r\ncontent-length: 34\r\n\r\n{"status":"declined","reason":"x"}';
    const { server, charge } = await atBytes((socket, before) => socket.write(before ? SUCCESS : SUCCESS + declined));
    expect(await charge()).toEqual(SUCCEEDED);
    await nextTurn();
    expect(await charge()).toEqual(SUCCEEDED);
    expect(server.connections()).toBe(2);
  });

  /** Bug: a late copy of a reply was the outcome of the next payment, and each later reply the outcome of the payment after it. */
  test('that is a late copy of the one before is unknown, and its connection is not used again', async () => {
    const keys = [1, 2, 3].map((number) => `0193a5b4-7c1e-7000-8000-00000000000${number}`);
    const about = (reference = '') => {
      const body = JSON.stringify({ status: 'succeeded', reference });
      return `${OK}content-length: ${body.length}\r\n\r\n${body}`;
    };
    const { server, charge, alarms } = await atBytes((socket, before) => {
      if (before === 1) socket.write(about(keys[0]));
      else socket.write(about(keys[before]));
    });
    const results = [];
    for (const key of keys) {
      results.push(await charge(key));
      await nextTurn();
    }
    expect(results).toEqual([SUCCEEDED, unknown(`its reference is ${keys[0]}, not ${keys[1]}`), SUCCEEDED]);
    expect([server.connections(), server.received.length, alarms.length]).toEqual([2, 3, 1]);
  });

  test('that comes after its deadline is not taken for the next request', async () => {
    const { charge } = await atBytes((socket, before) => {
      if (before > 0) socket.write(SUCCESS);
      else setTimeout(() => socket.write('HTTP/1.1 402 Payment Required\r\ncontent-length: 0\r\n\r\n'), 2 * SHORT_MS);
    }, SHORT_MS);
    expect(await inTime(charge, 'no reply came')).toEqual(unknown('no reply came'));
    expect(await inTime(charge)).toEqual(SUCCEEDED);
  });
});

describe('the connections to a processor', () => {
  /** Bug: an address that changed was never seen while payments kept the connections busy. Cause: they had no maximum age. */
  test('are renewed by the next question when they are old, and none is cut that waits for its reply', async () => {
    const held: ServerResponse[] = [];
    const server = await startHttpServer((response, { url }) =>
      url === '/held' ? held.push(response) : response.end(BODY),
    );
    // Only now: a server that listens asks for its own address, too.
    const lookUps = vi.spyOn(dns, 'lookup').mockImplementation(((_name: string, options: dns.LookupOptions, done) => {
      const found = { address: '127.0.0.1', family: 4 };
      return options.all ? done(null, [found]) : done(null, found.address, found.family);
    }) as (...parameters: [string, dns.LookupOptions, (...result: unknown[]) => void]) => void as typeof dns.lookup);
    onTestFinished(() => lookUps.mockRestore());
    const clock = new HandClock(0);
    const exchanges = createExchanges(`http://processor.test:${server.port}`, 20_000, 2, { clock });
    onTestFinished(() => exchanges.close());
    const ask = async (path: string) => {
      const { complete } = await exchanges.ask({ method: 'GET', path, headers: {} });
      await nextTurn();
      return complete;
    };
    const held1 = ask('/held');
    await until('the request', DEADLINE_MS, () => held.length === 1);
    expect(await ask('/')).toBe(true);
    clock.advance(CONNECTIONS_MAX_AGE_MS - 1);
    expect(await ask('/')).toBe(true);
    const before = lookUps.mock.calls.length;
    expect([before, server.connections()]).toEqual([2, 2]);
    clock.advance(1);
    expect(await ask('/')).toBe(true);
    expect([lookUps.mock.calls.length, server.connections()]).toEqual([3, 3]);
    held[0]?.end(BODY);
    expect(await held1).toBe(true);
    // The end of the processor ends those, too, that wait on an old connection.
    const held2 = ask('/held');
    await until('the request', DEADLINE_MS, () => held.length === 2);
    exchanges.renew();
    expect(await ask('/')).toBe(true);
    await exchanges.close();
    expect(await held2).toBe(false);
  });

  test('are used again, and do not go through a proxy of the environment', async () => {
    const proxy = await startHttpServer((response) => response.end(BODY));
    const names = ['HTTP_PROXY', 'http_proxy', 'ALL_PROXY', 'all_proxy', 'NODE_USE_ENV_PROXY'];
    for (const name of names) vi.stubEnv(name, name.startsWith('NODE') ? '1' : `http://127.0.0.1:${proxy.port}`);
    onTestFinished(() => void vi.unstubAllEnvs());
    const { server, charge } = await atHttp((response) => response.end(BODY));
    for (let index = 0; index < 20; index += 1) {
      expect(await charge()).toEqual(SUCCEEDED);
      // As in the protocol, in which settling comes between: a connection is free again one turn after its reply.
      await nextTurn();
    }
    expect([server.received.length, server.connections(), proxy.connections()]).toEqual([20, 1, 0]);
  });

  test('are closed with the processor: what is under way is unknown, and what comes later is not sent', async () => {
    const { server, charge, lookUp, close } = await atHttp(() => {});
    const underWay = charge();
    await until('the request', DEADLINE_MS, () => server.received.length === 1);
    await close();
    expect(await underWay).toEqual(unknown(/\w/));
    expect(await charge()).toEqual(notSent(/\w/));
    expect(await lookUp('key')).toEqual(unknown(/\w/));
    await close();
    expect(server.received).toHaveLength(1);
  });
});
