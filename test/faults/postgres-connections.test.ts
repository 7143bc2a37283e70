import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { StoreUnavailable } from '#idempay/platform/faults.js';
import { DatabaseAddress } from '#idempay/stores/postgres/connection/address.js';
import { Postgres } from '#idempay/stores/postgres/connection/postgres.js';
import { gate } from '../../testkit/concurrency.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';

const ONE = { name: 'one', text: 'SELECT 1 AS one' };

/**
 * Bug: a request that found no free connection waited for the checks of a new one, however long those took. Cause: the
 * pool's own limit ends when the server has taken the connection. Fix: one limit over everything before the statement.
 */
test('a new connection that cannot be checked in time costs a bounded wait, and serves the next request', async () => {
  const stored = await createSharedDatabase();
  onTestFinished(() => stored.drop());
  const check = gate();
  const database = new Postgres(new DatabaseAddress(stored.url), 1, () => {}, { onConnect: () => check.opened });
  // While the check has not ended.
  await expect(database.write(ONE)).rejects.toMatchObject({ name: 'StoreUnavailable', effect: 'unchanged' });
  check.open();
  expect(await database.read(ONE)).toEqual([{ one: 1 }]);
  await database.close();
});

/**
 * Bug: a host that died between two messages of a statement kept the row of the list locked until TCP gave it up, in two hours. Cause: the
 * server's defaults. Fix: each session has keep-alives of its own. Settings are sent by a statement: poolers drop them at the start.
 */
test('each session has the time limits of statements and locks, and learns within seconds of a host that died', async () => {
  const stored = await createSharedDatabase();
  onTestFinished(() => stored.drop());
  const database = new Postgres(new DatabaseAddress(stored.url), 1, () => {});
  const names = [
    ...['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout'],
    ...['tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count', 'tcp_user_timeout'],
  ];
  const shown: Record<string, unknown> = {};
  for (const name of names)
    Object.assign(shown, (await database.read({ name: `show_${name}`, text: `SHOW ${name}` }))[0]);
  const [started] = await database.read<{ initial: string }>({
    name: 'initial',
    text: "SELECT reset_val AS initial FROM pg_settings WHERE name = 'statement_timeout'",
  });
  await database.close();
  expect(shown).toEqual({
    ...{ statement_timeout: '5s', lock_timeout: '2s', idle_in_transaction_session_timeout: '1min' },
    ...{ tcp_keepalives_idle: '5', tcp_keepalives_interval: '2', tcp_keepalives_count: '3', tcp_user_timeout: '11000' },
  });
  expect(started?.initial, 'sent in the start-up message').toBe('0');
});

/**
 * Bug: a service ended with "Unhandled 'error' event" when PostgreSQL was killed or restarted (found by `npm run proof -- faults`). Cause:
 * nothing listened yet, or nothing any more, when the server's last words were read in one piece with its answer to the verification, or
 * with its greeting, which is told through a promise, and so later. Fix: each connection has a listener from its construction on.
 */
test.each([
  ['is verified', () => READY, () => Buffer.concat([...ROW, READY, LAST_WORDS])],
  ['is opened', () => Buffer.concat([READY, LAST_WORDS]), () => Buffer.alloc(0)],
])('a server that ends while a connection %s costs a request, not the process', async (_moment, greeting, verified) => {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (piece) => answer(socket, piece, greeting(), verified()));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const database = new Postgres(new DatabaseAddress(`postgres://idempay@127.0.0.1:${port}/idempay`), 2, () => {});
  onTestFinished(async () => {
    await database.close();
    server.close();
  });
  await expect(database.read({ name: 'any', text: 'SELECT 1' })).rejects.toThrow(StoreUnavailable);
});

const READY = message('Z', 'I');
const LAST_WORDS = message('E', 'SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0');
/** One row with the column `standby`, a boolean of one byte, which is `f`. */
const ROW = [
  message('T', '\0\x01standby\0\0\0\0\0\0\0\0\0\0\x10\0\x01\xff\xff\xff\xff\0\0'),
  message('D', '\0\x01\0\0\0\x01f'),
  message('C', 'SELECT 1\0'),
];

/** Lets everybody in. */
function answer(socket: Socket, piece: Buffer, greeting: Buffer, verified: Buffer): void {
  const isSslRequest = piece.length === 8;
  if (isSslRequest) socket.write('N');
  else if (piece[0] === 0) socket.write(Buffer.concat([message('R', '\0\0\0\0'), greeting]));
  else if (piece[0] === 'Q'.charCodeAt(0)) socket.end(verified);
}

function message(type: string, content: string): Buffer {
  const head = Buffer.from(`${type}\0\0\0\0`);
  head.writeInt32BE(content.length + 4, 1);
  return Buffer.concat([head, Buffer.from(content, 'latin1')]);
}
