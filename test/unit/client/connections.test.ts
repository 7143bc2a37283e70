import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { Idempay, InvalidRequestError, UnavailableError, UnknownOutcomeError } from '@idempay/client';
import { Agent, fetch as fetchWith } from 'undici';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import {
  COMPUTED_KEY,
  failureOf,
  json,
  KEY,
  NOTHING_PAID,
  PAID,
  reset,
  scripted,
} from '../../../testkit/client-library/scripted-fetch.js';
import { makeCertificates } from '../../../testkit/servers/certificates.js';

let certificates: Awaited<ReturnType<typeof makeCertificates>>;
beforeAll(async () => {
  certificates = await makeCertificates();
});
afterAll(() => certificates.remove());

/**
 * The bug: whatever hindered a connection, the error said "The connection failed.", and the address and the reason were two causes below
 * it. The cause: Node.js has only "fetch failed" as the message. The fix: messages have the address and what Node.js says of the cause.
 */
describe('the error of a connection says where it was to lead, and why it failed:', () => {
  test('refused', async () => {
    const server = createServer();
    const port = await portOf(server);
    server.close();
    expect(await messageFrom(`http://127.0.0.1:${port}`)).toContain(
      `http://127.0.0.1:${port} could not be reached: connect ECONNREFUSED 127.0.0.1:${port}.`,
    );
  });

  test('a port that speaks TLS, and one that does not', async () => {
    const tls = await portOf(await tlsServer());
    expect(await messageFrom(`http://localhost:${tls}`)).toMatch(
      new RegExp(`The connection to http://localhost:${tls} failed: .+ \\(UND_ERR_SOCKET\\)\\.`),
    );
    const plain = await portOf(createHttpServer((_, response) => response.end()));
    expect(await messageFrom(`https://localhost:${plain}`)).toContain(
      `https://localhost:${plain} failed: the port does not speak TLS, so baseUrl may have to begin with http://`,
    );
  });

  test('no answer in time', async () => {
    // No time is left for a second attempt.
    const { idempay } = scripted(['never'], { attemptTimeoutMs: 1_000, deadlineMs: 1_050 });
    const { message } = await failureOf(UnavailableError, idempay.payments.get(KEY));
    expect(message).toContain('The connection to http://idempay.test failed: No answer in time.');
  });

  test('a fetch of the caller: only its code, because its text may hold a key', async () => {
    const fault = Object.assign(new Error(`request to /api/payments/${KEY} failed`), { code: 'ECONNRESET' });
    const { idempay } = scripted(Array.from({ length: 60 }, () => fault));
    const { message } = await failureOf(UnavailableError, idempay.payments.get(KEY));
    expect(message).toContain('The connection to http://idempay.test failed: ECONNRESET.');
    expect(message).not.toContain(KEY);
  });

  test.each([null, '', 'two\nlines'])('a token that is %j', async (token) => {
    const { idempay, sent } = scripted([], { token: () => token as string, deadlineMs: 1_000 });
    const { message } = await failureOf(UnavailableError, idempay.payments.prefetchKeys(1));
    expect(message).toContain("could not be reached: 'token' must give text without spaces or line ends.");
    expect(sent).toEqual([]);
  });
});

/**
 * The bug: a certificate that is not accepted, and a port without TLS, were tried until the deadline, and the message did not say what to
 * do. The cause: they counted as any connection that failed. The fix: the call ends with the first of them, and says it.
 */
describe('a call ends at once, and says what to do, if', () => {
  const HUNDRED = { amount: '100.00', currency: 'USD' };

  test.each([
    [
      'the authority is unknown',
      'localhost',
      'certificate',
      false,
      /certificate.* Name the authority .* in NODE_EXTRA_CA_CERTS/,
    ],
    ['the certificate has expired', 'localhost', 'expired', true, /expired.* Renew the certificate/],
    ['the certificate is of another host', '127.0.0.2', 'certificate', true, /altnames.* Name the host in baseUrl/],
  ] as const)('%s', async (_what, host, certificate, isTrusted, says) => {
    const server = await tlsServer(certificate);
    const url = `https://${host}:${await portOf(server)}`;
    const { idempay, connections } = repeating(
      url,
      server,
      isTrusted ? await readFile(certificates.authority) : undefined,
    );
    const { message } = await failureOf(UnavailableError, idempay.payments.pay(HUNDRED, { reference: 'order-17' }));
    expect(message).toMatch(new RegExp(`^${url} could not be reached: .*${says.source}`));
    expect(message).toMatch(/\([A-Z_]+\)\. [^()]+\.$/);
    expect(connections()).toBe(1);
  });

  test('the port speaks no TLS, where a request that had been sent may have arrived', async () => {
    const server = createHttpServer((_, response) => response.end());
    const url = `https://localhost:${await portOf(server)}`;
    const { idempay, connections } = repeating(url, server);
    const { message } = await failureOf(UnknownOutcomeError, idempay.payments.pay(HUNDRED, { reference: 'order-17' }));
    expect(message).toMatch(
      /no further attempt would have one\. Pay the same reference .* have to begin with http:\/\//,
    );
    expect(connections()).toBe(1);
  });

  test('an attempt before it may have arrived: then the outcome is unknown', async () => {
    const refused = new TypeError('fetch failed', { cause: Object.assign(new Error(), { code: 'CERT_HAS_EXPIRED' }) });
    const { idempay, sent } = scripted([reset(), refused]);
    await failureOf(UnknownOutcomeError, idempay.payments.pay(HUNDRED, { reference: 'order-17' }));
    expect(sent).toHaveLength(2);
  });

  // These are alerts of the server: what was sent before may have been read.
  test.each(['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', 'ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE'])(
    'it is not %s',
    async (code) => {
      const alert = new TypeError('fetch failed', { cause: Object.assign(new Error(), { code }) });
      const { idempay, sent } = scripted([alert, alert, json(PAID, 200, { 'idempotency-key': COMPUTED_KEY })]);
      await idempay.payments.pay(HUNDRED, { reference: 'order-17' });
      expect(sent).toHaveLength(3);
    },
  );

  function repeating(baseUrl: string, server: Server, ca?: Buffer) {
    let connections = 0;
    server.on('connection', () => {
      connections += 1;
    });
    const dispatcher = new Agent({ connect: { ca } });
    onTestFinished(() => dispatcher.destroy());
    const send = (input: unknown, init: unknown) => fetchWith(input as string, { ...(init as object), dispatcher });
    const idempay = new Idempay({ baseUrl, deadlineMs: 20_000, random: () => 0, fetch: send as typeof fetch });
    return { idempay, connections: () => connections };
  }
});

test('an API key that is no text is refused', () => {
  expect(() => new Idempay({ baseUrl: 'http://localhost', apiKey: null as never })).toThrow(InvalidRequestError);
});

/**
 * The bug: Node.js warned of a leak as soon as eleven calls had the same signal. The cause: each call listened to it. The fix: one listener
 * for each signal (`onAbort`).
 */
describe('a signal that many calls share', () => {
  test('gets one listener, while calls are under way, and none afterwards', async () => {
    const { signal, listeners } = counted();
    const { idempay } = scripted(Array.from({ length: 50 }, () => json({ ...PAYMENT, idempotencyKey: KEY })));
    const calls = Array.from({ length: 50 }, () => idempay.payments.get(KEY, { signal }));
    expect(listeners.size).toBe(1);
    await Promise.all(calls);
    expect(listeners.size).toBe(0);
  });

  test('ends all of them, and a call that begins later', async () => {
    const aborting = new AbortController();
    const { idempay } = scripted(Array.from({ length: 20 }, () => 'never' as const));
    const calls = Array.from({ length: 20 }, () => idempay.payments.get(KEY, { signal: aborting.signal }));
    const ends = Promise.allSettled(calls);
    aborting.abort();
    for (const end of await ends)
      expect(end).toMatchObject({ status: 'rejected', reason: { name: 'UnavailableError' } });
    await failureOf(UnavailableError, idempay.payments.get(KEY, { signal: aborting.signal }));
  });

  test('is listened to again after its calls have ended', async () => {
    const aborting = new AbortController();
    const { idempay } = scripted([json({ ...PAYMENT, idempotencyKey: KEY }), 'never', 'never', reset()]);
    const options = { signal: aborting.signal };
    await idempay.payments.get(KEY, options);
    const later = idempay.payments.get(KEY, options);
    setImmediate(() => aborting.abort());
    await failureOf(UnavailableError, later);
  });
});

const PAYMENT = { ...NOTHING_PAID, state: 'PENDING' };

function counted() {
  const listeners = new Set<unknown>();
  const { signal } = new AbortController();
  const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)];
  signal.addEventListener = (type: string, listener: never) => {
    listeners.add(listener);
    add(type, listener);
  };
  signal.removeEventListener = (type: string, listener: never) => {
    listeners.delete(listener);
    remove(type, listener);
  };
  return { signal, listeners };
}

async function messageFrom(baseUrl: string): Promise<string> {
  // No pause before a second attempt fits into the deadline.
  const idempay = new Idempay({ baseUrl, deadlineMs: 20_000, random: () => 1_000 });
  return (await failureOf(UnavailableError, idempay.payments.get(KEY))).message;
}

async function tlsServer(certificate: 'certificate' | 'expired' = 'certificate'): Promise<Server> {
  const [cert, key] = await Promise.all([readFile(certificates[certificate]), readFile(certificates.key)]);
  return createHttpsServer({ cert, key }, (_, response) => response.end());
}

async function portOf(server: Server): Promise<number> {
  server.listen(0);
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}
