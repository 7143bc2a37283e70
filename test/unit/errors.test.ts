import { connect } from 'node:net';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fastify } from 'fastify';
import { expect, onTestFinished, test } from 'vitest';
import { installErrorHandler } from '#idempay/http/errors/error-answers.js';

async function logOfCutAnswer({ isClientGone }: { isClientGone: boolean }): Promise<string> {
  const log = new PassThrough();
  const server = fastify({ logger: { level: 'trace', stream: log } });
  onTestFinished(() => server.close());
  installErrorHandler(server, () => {}, { refused() {} });
  server.get('/', ({ raw }, reply) => {
    const body = new Readable({ read() {} });
    if (isClientGone) raw.socket.destroy();
    reply.send(body);
    body.destroy();
  });
  const { hostname, port } = new URL(await server.listen({ host: '127.0.0.1', port: 0 }));
  const client = connect(Number(port), hostname).on('error', () => {});
  client.write('GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
  await text(client).catch(() => '');
  await server.close();
  return text(log.end());
}

function linesOf(log: string) {
  return log
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
    .filter(({ msg }) => msg === 'request failed');
}

const [DEBUG, ERROR] = [20, 50];

test('an answer that ends too early is an error in the log', async () => {
  expect(linesOf(await logOfCutAnswer({ isClientGone: false }))).toMatchObject([{ level: ERROR }]);
});

test('an answer whose client has gone is no error in the log', async () => {
  expect(linesOf(await logOfCutAnswer({ isClientGone: true }))).toMatchObject([{ level: DEBUG }]);
});
