import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { Idempay, InvalidRequestError, UnavailableError } from '@idempay/client';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { failureOf, json, KEY, NOTHING_PAID, reset, scripted } from '../../../testkit/client-library/scripted-fetch.js';
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

  test('a certificate of an unknown authority', async () => {
    const port = await portOf(await tlsServer());
    expect(await messageFrom(`https://localhost:${port}`)).toMatch(
      new RegExp(`The connection to https://localhost:${port} failed: .*certificate.* \\([A-Z_]+\\)\\.`),
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

async function tlsServer(): Promise<Server> {
  const [cert, key] = await Promise.all([readFile(certificates.certificate), readFile(certificates.key)]);
  return createHttpsServer({ cert, key }, (_, response) => response.end());
}

async function portOf(server: Server): Promise<number> {
  server.listen(0);
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}
