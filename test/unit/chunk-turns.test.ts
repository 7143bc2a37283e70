/**
 * Bug: while four bodies of a megabyte came in chunks of one byte, `/livez` was silent for 9 s.
 * Cause: Node reads up to two megabytes of a connection in a row, and calls for each chunk. It accepts one connection after each such step.
 * Fix: beyond some chunks the connection waits for its turn.
 * Bug: a body waited for a turn of every connection before it, however many one address had, and also for those that were closed.
 * Cause: one line for all connections, which they left only in their turn.
 * Fix: addresses take turns, and a connection that closes leaves the line.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { noteChunk } from '#idempay/http/requests/chunk-turns.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 50_000;
/** One read of a socket has 65,536 bytes, and a chunk of one byte takes six. */
const CHUNKS_OF_A_READ = 11_000;
const LONG = 100_000;
/** Three reads. */
const SHORT = 3 * CHUNKS_OF_A_READ;

/** Reads bodies whose path is their address. */
async function readingServer(onChunk: (raw: IncomingMessage) => void = () => {}) {
  const chunks: Record<string, number> = {};
  const ended: string[] = [];
  const requests: IncomingMessage[] = [];
  const server = createServer((raw, response) => {
    const address = String(raw.url).slice(1);
    requests.push(raw);
    raw.on('data', () => {
      chunks[address] = (chunks[address] ?? 0) + 1;
      onChunk(raw);
      noteChunk({ raw, address });
    });
    raw.on('end', () => {
      ended.push(address);
      response.end();
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const send = (address: string, count: number) => {
    const head = `POST /${address} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`;
    connect(port, '127.0.0.1')
      .on('error', () => {})
      .end(`${head}${'1\r\na\r\n'.repeat(count)}0\r\n\r\n`)
      .resume();
  };
  /** Connections of this address that wait for their turn: all have sent a read and go on later. */
  const crowd = async (address: string, connections: number) => {
    for (let connection = 0; connection < connections; connection += 1) send(address, LONG);
    await until('all have begun', DEADLINE_MS, () => requests.length === connections);
  };
  return { chunks, ended, requests, send, crowd };
}

test('bodies in chunks of one byte are read a part at a time, and all of them to their end', async () => {
  const connections = 2;
  let inThisStep = 0;
  let mostInAStep = 0;
  const { ended, crowd } = await readingServer(() => {
    if (inThisStep === 0) {
      setImmediate(() => {
        inThisStep = 0;
      });
    }
    inThisStep += 1;
    mostInAStep = Math.max(mostInAStep, inThisStep);
  });
  await crowd('a', connections);
  await until('all bodies are read', DEADLINE_MS, () => ended.length === connections);
  // A first read of each connection, and a turn. Without turns all that the system has of one, 100,000.
  expect(mostInAStep).toBeLessThanOrEqual((connections + 1) * CHUNKS_OF_A_READ);
});

test('a body waits for one turn of another address in each round, however many connections that one has', async () => {
  const { chunks, ended, send, crowd } = await readingServer();
  await crowd('many', 20);
  const before = chunks.many ?? 0;
  send('one', SHORT);
  await until('the body is read', DEADLINE_MS, () => ended.includes('one'));
  // In a line of all connections each of the twenty would be read before each read of this one.
  expect((chunks.many ?? 0) - before).toBeLessThan(10 * CHUNKS_OF_A_READ);
});

test('a body does not wait for the turns of connections that are closed', async () => {
  const { ended, requests, send, crowd } = await readingServer();
  await crowd('a', 60);
  for (const { socket } of requests) socket.destroy();
  send('a', SHORT);
  send('another', LONG);
  await until('a body is read', DEADLINE_MS, () => ended.length > 0);
  // The long body takes nine turns. After the turns of sixty connections the short one would be read after it.
  expect(ended).toEqual(['a']);
});
