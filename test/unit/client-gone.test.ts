/**
 * Bug: answers that went on, and duplicates that wait, kept their places for up to three minutes after their client had left.
 * Cause: Node emits no `close` on the answer to a pipelined request whose turn has not come when the client disconnects.
 * Fix: the connection tells it.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { type FastifyReply, fastify } from 'fastify';
import { expect, onTestFinished, test } from 'vitest';
import { whenClientIsGone } from '#idempay/http/requests/client-gone.js';
import { requestText } from '../../testkit/client/raw-http.js';
import { pause, until } from '../../testkit/time/until.js';

const READ = requestText('GET / HTTP/1.1');
const MANY = 12;
const DEADLINE_MS = 5_000;
/** Much longer than an answer takes on the loopback. */
const QUIET_MS = 200;

/** A server that answers nothing by itself, and a connection with this number of requests behind one another. */
async function asked(count: number) {
  const gone: string[] = [];
  const replies: FastifyReply[] = [];
  const app = fastify();
  app.get('/', (request, reply) => {
    replies.push(reply);
    whenClientIsGone(reply, () => gone.push(request.id));
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => app.close());
  const client = connect((app.server.address() as AddressInfo).port, '127.0.0.1').on('error', () => {});
  onTestFinished(() => void client.destroy());
  client.resume().write(READ.repeat(count));
  await until('all requests', DEADLINE_MS, () => replies.length === count);
  const [first] = replies as [FastifyReply];
  return { client, replies, first, gone, socket: first.request.raw.socket };
}

test.each<[how: string, leave: (client: Socket) => void]>([
  ['resets its connection', (client) => client.resetAndDestroy()],
  ['breaks it off in the middle of the first answer', (client) => client.destroy()],
])('each of many pipelined requests learns once that the client %s', async (_how, leave) => {
  const warnings: Error[] = [];
  const note = (warning: Error) => warnings.push(warning);
  process.on('warning', note);
  onTestFinished(() => void process.off('warning', note));
  const { client, replies, first, gone } = await asked(MANY);
  first.raw.write('the first part');
  await once(client, 'data');
  leave(client);
  const writing = setInterval(() => first.raw.write('more'), 20);
  onTestFinished(() => clearInterval(writing));
  await until('the end of all', DEADLINE_MS, () => gone.length >= MANY);
  await pause(QUIET_MS);
  expect(gone.toSorted()).toEqual(replies.map(({ request }) => request.id).toSorted());
  expect(warnings).toEqual([]);
});

test('a request whose answer is over does not learn of the end of its connection', async () => {
  const { client, replies, first, gone, socket } = await asked(3);
  first.raw.end('whole');
  await once(client, 'data');
  await pause(QUIET_MS);
  client.destroy();
  await until('the end of the others', DEADLINE_MS, () => gone.length >= 2);
  expect(gone).toEqual(replies.slice(1).map(({ request }) => request.id));
  expect(socket.destroyed).toBe(true);
});

test('a request whose connection is closed already learns it at once', async () => {
  const { client, first, gone, socket } = await asked(1);
  client.resetAndDestroy();
  await until('its end', DEADLINE_MS, () => socket.closed);
  whenClientIsGone(first, () => gone.push('later'));
  expect(gone).toEqual([first.request.id, 'later']);
});
