import { once } from 'node:events';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { Agent } from 'node:https';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { type ConnectionOptions, connect as connectSecurely, type TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask } from '../../testkit/client/http-client.js';
import { expectFirst } from '../../testkit/client/payment-answers.js';
import {
  answerTo,
  exchange,
  openConnection,
  paymentText,
  requestText,
  sendAndVanish,
} from '../../testkit/client/raw-http.js';
import { inParallel } from '../../testkit/concurrency.js';
import { embedded, type Stores } from '../../testkit/deployments/deployments.js';
import { openSockets } from '../../testkit/processes/open-sockets.js';
import { DRAIN_LIMIT_MS, runToExit, type Service } from '../../testkit/processes/service.js';
import { makeCertificates } from '../../testkit/servers/certificates.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 15_000;
/** A connection whose end was missed is cut with its request, after 30 s (docs/reference/http.md). */
const LIMITS_MS = 40_000;
const CONNECTIONS = 300;
const AT_ONCE = 20;

const READ = requestText('GET /api/health/redis HTTP/1.1');
const CONNECT = requestText('CONNECT example.com:443 HTTP/1.1');

describe('a service with TLS_CERT_FILE and TLS_KEY_FILE', () => {
  let certificates: Awaited<ReturnType<typeof makeCertificates>>;
  let others: Awaited<ReturnType<typeof makeCertificates>>;
  let authority: Buffer;
  let files: { TLS_CERT_FILE: string; TLS_KEY_FILE: string };
  let stores: Stores;
  let service: Service;
  let agent: Agent;

  beforeAll(async () => {
    [certificates, others, stores] = await Promise.all([makeCertificates(), makeCertificates(), embedded.open()]);
    authority = await readFile(certificates.authority);
    const inUse = (name: string) => join(certificates.folder, name);
    files = { TLS_CERT_FILE: inUse('in-use.pem'), TLS_KEY_FILE: inUse('in-use.key') };
    await install(certificates);
    service = await stores.start({ ...files, LOG_LEVEL: 'debug' });
    agent = new Agent({ ca: authority, servername: 'localhost', keepAlive: true, maxSockets: 1 });
  });
  afterAll(async () => {
    agent?.destroy();
    await stores?.close();
    await Promise.all([certificates?.remove(), others?.remove()]);
  });

  async function install({ certificate, key }: typeof certificates): Promise<void> {
    await copyFile(key, files.TLS_KEY_FILE);
    await copyFile(certificate, files.TLS_CERT_FILE);
  }

  /** The certificate that a new connection is shown. */
  async function shownCertificate(options: ConnectionOptions = {}): Promise<string> {
    const socket = connectSecurely({ port: service.port, host: '127.0.0.1', rejectUnauthorized: false, ...options });
    await once(socket, 'secureConnect');
    const { fingerprint256 } = socket.getPeerCertificate();
    socket.destroy();
    return fingerprint256;
  }

  test.each(['TLSv1.2', 'TLSv1.3'] as const)('serves over %s', async (version) => {
    const one = new Agent({ ca: authority, servername: 'localhost', minVersion: version, maxVersion: version });
    onTestFinished(() => one.destroy());
    expect((await ask(`${service.url}/readyz`, { agent: one })).status).toBe(200);
  });

  test('refuses older versions of TLS', async () => {
    const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;
    await expect(shownCertificate(old)).rejects.toMatchObject({ code: 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION' });
  });

  test('closes a connection that speaks no TLS, and goes on', async () => {
    expect(await exchange(service.port, READ)).toBeUndefined();
    expect((await ask(`${service.url}/livez`, { agent })).status).toBe(200);
  });

  test('refuses what is not HTTP as it does without TLS', async () => {
    expectFirst(await answerTo(service.port, paymentText(await newKey()), authority));
    const refused = await answerTo(service.port, CONNECT, authority);
    expectError(refused, 405);
    expect(refused.headers.allow).toBe('DELETE, GET, HEAD, POST, PUT');
    expectError(await answerTo(service.port, 'NOISE\r\n\r\n', authority), 400);
    expectError(await answerTo(service.port, requestText('GET / HTTP/1.1', ['Expect: x']), authority), 417);
    expectError(await answerTo(service.port, requestText('GET / HTTP/9.9'), authority), 505);
    // The answer to the whole request comes first.
    for (const text of [READ + CONNECT, `${READ}NOISE\r\n\r\n`]) {
      expect((await answerTo(service.port, text, authority)).json()).toMatchObject({ status: 'UP' });
    }
  });

  test('is not ended by connections that break off, also within the handshake, and keeps none', async () => {
    const hello = await clientHello();
    const before = await openSockets(service);
    const texts = [CONNECT, READ + CONNECT, `${READ}NOISE\r\n\r\n`, paymentText(await newKey())];
    await inParallel(CONNECTIONS, AT_ONCE, async (index) => {
      const text = texts[index % texts.length] ?? '';
      const cut = text.slice(0, 1 + (index % text.length));
      await sendAndVanish(service.port, cut, { reset: index % 3 > 0, afterMs: index % 4, authority });
      const part = hello.subarray(0, 1 + ((index * 7) % hello.length));
      await sendAndVanish(service.port, part, { reset: index % 3 > 0, afterMs: index % 2 });
    });
    expect((await ask(`${service.url}/livez`, { agent })).status).toBe(200);
    await until('the sockets of the start', LIMITS_MS, async () => (await openSockets(service)) <= before + 1);
  });

  test('closes a CONNECT whose client leaves its half open', async () => {
    const before = await openSockets(service);
    const socket = openConnection(service.port, CONNECT, { allowHalfOpen: true, authority }).resume();
    await once(socket, 'end');
    await until('both halves closed', DEADLINE_MS, async () => (await openSockets(service)) <= before);
    socket.destroy();
  });

  describe('whose files change', () => {
    const problems = () => service.logs.filter(({ msg }) => msg?.startsWith('the TLS certificate was not replaced'));

    test('shows the new certificate to new connections, and drops none', async () => {
      const [first, kept] = [await shownCertificate(), openConnection(service.port, READ, { authority })];
      let received = '';
      kept.setEncoding('utf8').on('data', (chunk) => {
        received += chunk;
      });
      await until('the first answer', DEADLINE_MS, () => received.includes('"UP"'));
      await install(others);
      await expect.poll(() => shownCertificate()).not.toBe(first);
      received = '';
      kept.write(READ);
      await until('the second answer', DEADLINE_MS, () => received.includes('"UP"'));
      kept.destroy();
      await install(certificates);
      await expect.poll(() => shownCertificate()).toBe(first);
    });

    test.each<[string, () => Promise<void>, RegExp]>([
      [
        'are no longer certificates',
        () => writeFile(files.TLS_CERT_FILE, 'x'),
        /TLS_CERT_FILE is not a PEM certificate/,
      ],
      ['do not belong together', () => copyFile(others.key, files.TLS_KEY_FILE), /does not belong to the certificate/],
    ])('and %s keeps the last good pair, and says so once', async (_what, spoil, problem) => {
      const [shown, before] = [await shownCertificate(), problems().length];
      await spoil();
      await until('the complaint', DEADLINE_MS, () => problems().length > before);
      expect(problems().at(-1)?.msg).toMatch(problem);
      expect(await shownCertificate()).toBe(shown);
      await install(certificates);
      expect(problems()).toHaveLength(before + 1);
    });
  });

  test('drains without waiting for connections that sent nothing, or half of a handshake', async () => {
    const hello = await clientHello();
    const draining = await (await embedded.open()).start(files);
    onTestFinished(() => void draining.kill());
    const sockets = [
      openConnection(draining.port, '', { authority }),
      openConnection(draining.port, ''),
      openConnection(draining.port, hello.subarray(0, 100)),
      openConnection(draining.port, CONNECT, { allowHalfOpen: true, authority }).resume(),
    ];
    await once(sockets[0] as TLSSocket, 'secureConnect');
    const since = performance.now();
    expect((await draining.stop()).code).toBe(0);
    expect(performance.now() - since).toBeLessThan(DRAIN_LIMIT_MS);
    for (const socket of sockets) socket.destroy();
  });

  test.each<[string, () => Record<string, string>, RegExp]>([
    ['the certificate alone', () => ({ TLS_CERT_FILE: files.TLS_CERT_FILE }), /TLS_CERT_FILE is set but TLS_KEY_FILE/],
    ['the key alone', () => ({ TLS_KEY_FILE: files.TLS_KEY_FILE }), /TLS_KEY_FILE is set but TLS_CERT_FILE is not/],
    [
      'a file that is missing',
      () => ({ ...files, TLS_CERT_FILE: join(certificates.folder, 'nowhere') }),
      /^TLS_CERT_FILE cannot be read: ENOENT/m,
    ],
    ['a key of another', () => ({ ...files, TLS_KEY_FILE: others.key }), /^The key in TLS_KEY_FILE does not belong/m],
    ['no key', () => ({ ...files, TLS_KEY_FILE: files.TLS_CERT_FILE }), /^TLS_KEY_FILE is not a PEM private key/m],
  ])('is refused at the start with %s', async (_title, settings, sentence) => {
    const { code, output } = await runToExit({ DATA_DIR: join(certificates.folder, 'data'), ...settings() });
    expect(code).toBe(1);
    expect(output).toMatch(sentence);
    expect(output, 'a stack trace').not.toMatch(/\bat \S.*:\d+:\d+/);
  });

  async function newKey(): Promise<string> {
    return (await ask(`${service.url}/api/server-generated/generate-key`, { agent })).json<string>();
  }

  /** The first bytes of a client. */
  async function clientHello(): Promise<Buffer> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    const client = connectSecurely({ socket: connect(port, '127.0.0.1'), servername: 'localhost' });
    client.on('error', () => {});
    const [socket] = await once(server, 'connection');
    const [bytes] = await once(socket, 'data');
    client.destroy();
    socket.destroy();
    server.close();
    return bytes as Buffer;
  }
});
