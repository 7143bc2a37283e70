/**
 * Bug: while four bodies of a megabyte came in chunks of one byte, `/livez` was silent for 9 s.
 * Cause: Node reads up to two megabytes of a connection in a row, and calls for each chunk. It accepts one connection after each such step.
 * Fix: beyond some chunks the connection waits for its turn.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { noteChunk } from '#idempay/http/requests/chunk-turns.js';
import { until } from '../../testkit/time/until.js';

const CONNECTIONS = 2;
const CHUNKS = 100_000;
/** One read of a socket has 65,536 bytes, and a chunk of one byte takes six. */
const CHUNKS_OF_A_READ = 11_000;

test('bodies in chunks of one byte are read a part at a time, and all of them to their end', async () => {
  let inThisStep = 0;
  let mostInAStep = 0;
  let ended = 0;
  const server = createServer((request, response) => {
    request.on('data', () => {
      if (inThisStep === 0) {
        setImmediate(() => {
          inThisStep = 0;
        });
      }
      inThisStep += 1;
      mostInAStep = Math.max(mostInAStep, inThisStep);
      noteChunk(request);
    });
    request.on('end', () => {
      ended += 1;
      response.end();
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });

  const text = `POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\na\r\n'.repeat(CHUNKS)}0\r\n\r\n`;
  for (let connection = 0; connection < CONNECTIONS; connection += 1) {
    connect((server.address() as AddressInfo).port, '127.0.0.1')
      .end(text)
      .resume();
  }
  await until('all bodies are read', 25_000, () => ended === CONNECTIONS);
  // A first read of each connection, and a turn. Without turns all that the system has of one, 100,000.
  expect(mostInAStep).toBeLessThanOrEqual((CONNECTIONS + 1) * CHUNKS_OF_A_READ);
});
