import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Postgres } from '#idempay/deployments/distributed/postgres/postgres.js';
import { StoreUnavailable } from '#idempay/faults.js';

/*
 * Bug: a service ended with "Unhandled 'error' event" when PostgreSQL was killed (found by `npm run faults`).
 * Cause: the pool takes its listener off a new connection before it is verified, and ours came only when the connection
 * had been handed over. The server's last words, read in one piece with its answer to the verification, met no listener.
 * Fix: a listener for the life of each connection, from the moment it is there.
 */

const LAST_WORDS = { S: 'FATAL', C: '57P01', M: 'terminating connection due to unexpected postmaster exit' };
const SSL_REQUEST = 80_877_103;

let server: Server;
let database: Postgres;

beforeEach(async () => {
  server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (piece) => answer(socket, piece));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  database = new Postgres(`postgres://idempay@127.0.0.1:${port}/idempay`, 2, () => {});
});
afterEach(async () => {
  await database?.close();
  server?.close();
});

it('a server that ends while a connection is being verified costs a request, not the process', async () => {
  const asked = database.read({ name: 'any', text: 'SELECT 1' });
  await expect(asked).rejects.toThrow(StoreUnavailable);
});

/** Lets everybody in; its answer to the first query and its last words are one piece. */
function answer(socket: Socket, piece: Buffer): void {
  const isStartUp = piece[0] === 0;
  if (isStartUp && piece.readInt32BE(4) === SSL_REQUEST) {
    socket.write('N');
  } else if (isStartUp) {
    socket.write(Buffer.concat([message('R', Buffer.alloc(4)), readyForQuery()]));
  } else if (piece.toString('latin1', 0, 1) === 'Q') {
    const column = Buffer.concat([
      Buffer.from('standby\0'),
      Buffer.from([0, 0, 0, 0, 0, 0]),
      Buffer.from([0, 0, 0, 16]),
    ]);
    const description = Buffer.concat([Buffer.from([0, 1]), column, Buffer.from([0, 1, 255, 255, 255, 255, 0, 0])]);
    const row = Buffer.concat([Buffer.from([0, 1]), Buffer.from([0, 0, 0, 1]), Buffer.from('f')]);
    const fields = Object.entries(LAST_WORDS).map(([type, text]) => `${type}${text}\0`);
    socket.end(
      Buffer.concat([
        message('T', description),
        message('D', row),
        message('C', Buffer.from('SELECT 1\0')),
        readyForQuery(),
        message('E', Buffer.from(`${fields.join('')}\0`)),
      ]),
    );
  }
}

function readyForQuery(): Buffer {
  return message('Z', Buffer.from('I'));
}

function message(type: string, content: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type, 0, 'latin1');
  head.writeInt32BE(content.length + 4, 1);
  return Buffer.concat([head, content]);
}
