import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { expectFirst, expectReplay, expectUnspent, untilPaid } from '../../testkit/client/payment-answers.js';
import { BODY_LIMIT_BYTES, GOOD_BODY } from '../../testkit/client/payment-bodies.js';
import {
  answerTo,
  converse,
  exchange,
  GOOD_LENGTH,
  openConnection,
  paymentText,
  requestText,
  sendAndVanish,
  statusesIn,
} from '../../testkit/client/raw-http.js';
import { describeOneDeployment } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

type Write = (key: string) => string | Buffer;

const READ = 'GET /api/health/redis HTTP/1.1';
const TLS_HELLO = Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03]);
const CODINGS = 'Transfer-Encoding';
const TOO_LONG = `Content-Length: ${BODY_LIMIT_BYTES + 1}`;

/** A payment with further lines, or with lines in place of its length, or with some text replaced. */
const plus = (...lines: string[]): Write => framed(GOOD_LENGTH, ...lines);
const framed =
  (...lines: string[]): Write =>
  (key) =>
    paymentText(key, lines);
const edited =
  (from: string | RegExp, to: string): Write =>
  (key) =>
    paymentText(key).replace(from, to);

const emptyHeaders = (count: number): string[] => Array.from({ length: count }, () => 'a:');
const SOME_KEY = '00000000-0000-4000-8000-000000000000';

/** Bytes that no HTTP client sends and every port on the internet receives. All but the broken part is a good payment. */
const MALFORMED: readonly [label: string, write: Write, status?: number][] = [
  ['noise', () => 'NOISE\r\n\r\n'],
  ['the first bytes of TLS', () => TLS_HELLO],
  ['an unknown method', edited('POST', 'BREW'), 501],
  ['a method that is no token', edited('POST', 'B{REW')],
  ['an unknown method in a line without a version', edited(/POST (.*) HTTP\/1.1/, 'BREW $1')],
  ['an unknown HTTP version', edited('HTTP/1.1', 'HTTP/9.9'), 505],
  ['version 2 of HTTP in the form of version 1', edited('HTTP/1.1', 'HTTP/2.0'), 505],
  ['the preface of HTTP/2', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 505],
  ['two media types', plus('content-type: text/plain')],
  ['the same media type twice', plus('Content-Type: application/json')],
  ['credentials twice', plus('Authorization: Bearer one', 'authorization: Bearer other')],
  ['no Host', edited(/Host: .*\r\n/, '')],
  ['two Hosts', plus('Host: 127.0.0.1')],
  ['a Host that is none', edited('Host: 127.0.0.1', 'Host: a b')],
  ['NUL in the key', (key) => paymentText(`${key}\0`)],
  ['a header without a colon', plus('nonsense')],
  ['a header line that goes on in the next', plus('X-Folded: one', ' two')],
  ['a space before a colon', plus('X-Y : 1')],
  ['a length that is no number', framed('Content-Length: many')],
  ['two different lengths', plus('Content-Length: 5')],
  ['a length alongside chunks', plus(`${CODINGS}: chunked`)],
  ['a coding alongside chunks', framed(`${CODINGS}: gzip, chunked`), 501],
  ['a coding in a line of its own', framed(`${CODINGS}: gzip`, `${CODINGS}: chunked`), 501],
  ['chunks that are no last coding', framed(`${CODINGS}: chunked, gzip`)],
  ['chunks twice', framed(`${CODINGS}: chunked, chunked`)],
  ['chunks in version 1.0', (key) => paymentText(key, [`${CODINGS}: chunked`]).replace('HTTP/1.1', 'HTTP/1.0')],
  ['chunks without their sizes', framed(`${CODINGS}: chunked`)],
  ['a target of 20,000 characters', edited('/api/payment', `/api/payment?${'x'.repeat(20_000)}`), 414],
  ['a target of 12,000 characters', edited('/api/payment', `/api/payment?${'x'.repeat(12_000)}`), 414],
  ['one header of 40,000 characters', plus(`X-Long: ${'a'.repeat(40_000)}`), 431],
  ['800 headers', plus(...Array.from({ length: 800 }, (_, index) => `X-${index}: ${'a'.repeat(50)}`)), 431],
  // Node reads the first 1,000 by default, and says nothing of the others.
  ['a second Host after 1,500 headers', plus(...emptyHeaders(1_500), 'Host: elsewhere.example')],
  ['another key after 1,500 headers', plus(...emptyHeaders(1_500), `Idempotency-Key: ${SOME_KEY}`)],
  ['more than 2,000 headers', plus(...emptyHeaders(2_000)), 431],
  ['an unknown expectation', plus('Expect: a-miracle'), 417],
  ['an unknown expectation alongside the known one', plus('Expect: 100-continue, a-miracle'), 417],
  // Refused by the declared length, without waiting for the rest.
  ['a declared length over 16 KiB', framed(TOO_LONG), 413],
];

/** The received part is a whole JSON document: only the missing bytes say that it is not what the client meant to send. */
const BROKEN_OFF: readonly [what: string, write: Write][] = [
  ['a body that is shorter than its length', framed(`Content-Length: ${GOOD_BODY.length + 10}`)],
  [
    'chunks without the last one',
    (key) => paymentText(key, [`${CODINGS}: chunked`], `${GOOD_BODY.length.toString(16)}\r\n${GOOD_BODY}\r\n`),
  ],
];

describeOneDeployment('broken HTTP', (deployment) => {
  const shared = shareService(deployment);
  const answer = (text: string | Buffer) => answerTo(shared.service.port, text);

  it('is made from a payment that is accepted', async () => {
    expectFirst(await answer(paymentText(await generateKey(shared.url))));
  });

  it.each(MALFORMED)('is refused and spends no key: %s', async (_label, write, status = 400) => {
    const key = await generateKey(shared.url);
    expectError(await answer(write(key)), status);
    await expectUnspent(shared.url, key);
  });

  // It had one, which its client took for noise: Node's reported a parse error in place of the 431. Nobody had looked at the method.
  it.each([
    ['one header of 20,000 characters', 'HEAD /livez HTTP/1.1', [`X-Long: ${'a'.repeat(20_000)}`], 431],
    ['a length that is no number', 'HEAD /livez HTTP/1.1', ['Content-Length: many'], 400],
    ['an unknown HTTP version', 'HEAD /livez HTTP/9.9', [], 505],
    ['a target of 20,000 characters', `HEAD /livez?${'x'.repeat(20_000)} HTTP/1.1`, [], 414],
  ])('is answered without a body where it is HEAD: %s', async (_label, startLine, lines, status) => {
    const refusal = await answer(requestText(startLine, lines));
    expect([refusal.status, refusal.text]).toEqual([status, '']);
  });

  it.each(BROKEN_OFF)('spends no key when the client leaves after %s', async (_what, write) => {
    const key = await generateKey(shared.url);
    const refusal = await exchange(shared.service.port, write(key), { halfClose: true });
    if (refusal) expectError(refusal, 400);
    for (let attempt = 0; attempt < 5; attempt += 1) await sendAndVanish(shared.service.port, write(key));
    await expectUnspent(shared.url, key);
  });

  it('leaves no lock, and one payment at most, when the client vanishes after a whole request', async () => {
    const key = await generateKey(shared.url);
    await sendAndVanish(shared.service.port, paymentText(key));
    // Both requests may be at work for a moment, so a 409 now is right; one that stays is a lock left behind.
    const [transactionId] = /TXN\d+/.exec((await untilPaid(shared.url, key)).text) ?? [];
    expectReplay(await pay(shared.url, key), transactionId);
  });

  /**
   * Bug: CONNECT got no answer. Cause: Node hands it to no route, and closes the connection when nobody listens for it.
   * Fix: the server listens, and answers as to every method that is not served.
   */
  it.each(['example.com:443', '/api/payment'])('does not include CONNECT, a 405: %s', async (target) => {
    const text = requestText(`CONNECT ${target} HTTP/1.1`);
    const refusal = await answer(text);
    expectError(refusal, 405);
    expect(refusal.headers.allow).toBe('DELETE, GET, HEAD, POST, PUT');
    // An error of the socket that nobody listens for would end the process; `broken-connections` resets at every byte.
    await sendAndVanish(shared.service.port, text, { reset: true, afterMs: 2 });
    expect((await ask(`${shared.url}/api/health/redis`)).status).toBe(200);
  });

  it.each([
    ['http://127.0.0.1/api/health/redis', 200],
    ['HTTP://another.example:81/api/health/redis?x=1', 200],
    ['https://user@example.com/api/health/redis', 200],
    ['http://127.0.0.1', 404],
    ['http://127.0.0.1?x=1', 404],
  ])('is no target in absolute form, which an origin server must take: %s', async (target, status) => {
    const taken = await answer(requestText(`GET ${target} HTTP/1.1`));
    if (status === 200) expect(taken.json()).toMatchObject({ status: 'UP' });
    else expectError(taken, status);
  });

  it.each([
    ...['', 'Host: localhost\r\n', 'Host: \r\n', 'Host: [::1]:80\r\n'].map(
      (host) => `${READ.replace('1.1', '1.0')}\r\n${host}\r\n`,
    ),
    `\r\n\r\n${requestText(READ)}`,
    requestText(READ, ['Connection: Upgrade', 'Upgrade: websocket', 'Range: bytes=0-1']),
  ])('is neither version 1.0, nor empty lines before a request, nor an unwanted upgrade: %j', async (text) => {
    expect((await answer(text)).status).toBe(200);
  });

  it.each([
    [READ, '200 OK'],
    ['GET /nothing HTTP/1.1', '404 Not Found'],
    ['CONNECT a:1 HTTP/1.1', '405 Method Not Allowed'],
    ['GET / HTTP/1.1\r\nExpect: x', '417 Expectation Failed'],
    [`POST /api/transactions HTTP/1.1\r\nContent-Type: application/json\r\n${TOO_LONG}`, '413 Content Too Large'],
    ['NOISE', '400 Bad Request'],
  ])('has a date and the reason phrase of RFC 9110 in its answer: %s', async (line, reason) => {
    const { headers, statusText } = await answer(requestText(line));
    expect(headers.date).toMatch(/^\w{3}, \d\d \w{3} \d{4} .* GMT$/);
    expect(statusText).toBe(reason);
  });

  it.each(['OPTIONS * HTTP/1.1', 'TRACE /api/payment HTTP/1.1'])('is not repeated in a refusal: %s', async (line) => {
    const refusal = await answer(requestText(line, ['X-Secret: hidden']));
    expectError(refusal, line.startsWith('TRACE') ? 405 : 404);
    expect(JSON.stringify(refusal)).not.toContain('hidden');
  });

  /**
   * Bug: the client was answered 100, sent its body, and was then refused for what its head had said. Cause: Node sends the
   * 100 by itself. Fix: it is sent when the body begins to be read.
   */
  describe('Expect: 100-continue', () => {
    const EXPECT = 'Expect: 100-continue';
    const JSON_TYPE = 'Content-Type: application/json';
    const PAY = 'POST /api/payment HTTP/1.1';

    it.each(['1.0', '1.1'])('is answered 100 where the body is wanted, but not in version 1.0: %s', async (version) => {
      const head = paymentText(await generateKey(shared.url), [GOOD_LENGTH, EXPECT], '').replace('1.1', version);
      if (version === '1.0') {
        expect(statusesIn(await converse(shared.service.port, [head + GOOD_BODY]))).toEqual([200]);
      } else {
        // Then as any request, on a connection that stays.
        const received = await converse(shared.service.port, [head, GOOD_BODY, requestText(READ)], 3);
        expect(statusesIn(received)).toEqual([100, 200, 200]);
      }
    });

    it.concurrent.each([
      ['no key', PAY, [JSON_TYPE, GOOD_LENGTH], 400],
      ['a path that is not there', 'POST /api/nothing HTTP/1.1', [JSON_TYPE, GOOD_LENGTH], 404],
      ['a method that is not served', 'PUT /api/payment HTTP/1.1', [JSON_TYPE, GOOD_LENGTH], 405],
      ['a length beyond the limit', PAY, [JSON_TYPE, TOO_LONG, 'KEY'], 413],
      ['another media type', PAY, ['Content-Type: text/plain', GOOD_LENGTH, 'KEY'], 415],
      ['a transfer coding', PAY, [JSON_TYPE, `${CODINGS}: gzip, chunked`, 'KEY'], 501],
      ['a second Host', PAY, [JSON_TYPE, GOOD_LENGTH, 'Host: b', 'KEY'], 400],
      ['another expectation', PAY, [JSON_TYPE, GOOD_LENGTH, 'KEY'], 417],
    ])('gets a refusal at once, without 100, and the connection ends: %s', async (_what, line, headers, status) => {
      const key = await generateKey(shared.url);
      const lines = headers.map((header) => (header === 'KEY' ? `Idempotency-Key: ${key}` : header));
      const head = requestText(line, [status === 417 ? 'Expect: a-miracle' : EXPECT, ...lines]);
      // The following bytes, at once or later, may be the body that nobody read, and is never taken for a request.
      for (const parts of [[head + requestText(READ)], [head, requestText(READ)]]) {
        const received = await converse(shared.service.port, parts);
        expect(statusesIn(received)).toEqual([status]);
        expect(received).toMatch(/^connection: close\r$/im);
      }
      await expectUnspent(shared.url, key);
    });
  });
});

describeOneDeployment('requests behind one another on a connection', (deployment) => {
  const shared = shareService(deployment);

  it.each([
    [8, 'all of them'],
    [50, 'eight, and then the connection ends'],
  ])('are answered, also to a client that has ended its side: of %i %s', async (count) => {
    const socket = openConnection(shared.service.port, requestText('GET /livez HTTP/1.1').repeat(count));
    expect(statusesIn(await text(socket.end()))).toEqual(Array(8).fill(200));
  });

  it('are not begun behind a refusal that ends the connection', async () => {
    const key = await generateKey(shared.url);
    const refused = paymentText(key, [GOOD_LENGTH]).replace('application/json', 'text/plain');
    const socket = openConnection(shared.service.port, refused + paymentText(key));
    expect(statusesIn(await text(socket))).toEqual([415]);
    await expectUnspent(shared.url, key);
  });

  /**
   * Bug: a connection that sent 64 kB of requests with an unknown `Expect` behind unread answers held 7.5 MB. Cause: Node emits these as an
   * event of their own, in which they were answered past the bound. Fix: they become requests as all others, and are refused within it.
   */
  it('are left behind eight others, also with an expectation that would be refused', async () => {
    const refused = requestText('GET /livez HTTP/1.1', ['Expect: a-miracle']).repeat(50);
    const socket = openConnection(shared.service.port, requestText('GET /livez HTTP/1.1').repeat(8) + refused);
    expect(statusesIn(await text(socket))).toEqual(Array(8).fill(200));
  });
});

/**
 * Bug: a client whose payment was under way got a 400 for it when stray bytes followed it on its connection. Cause: what
 * the parser refused was answered on the socket at once, before the answer that was due there. Fix: the refusal follows
 * the answers that the connection still owes to whole requests.
 */
describeOneDeployment('bytes after a whole payment, while it is under way', (deployment) => {
  const shared = shareService(deployment, { PROCESSOR_DELAY_MS: '1000' });

  it.concurrent.each([
    ['noise', 'NOISE\r\n\r\n', 400],
    ['a header section that is too long', requestText('GET / HTTP/1.1', [`X-Long: ${'a'.repeat(40_000)}`]), 431],
    ['CONNECT', requestText('CONNECT example.com:443 HTTP/1.1'), 405],
  ])('leave it its answer, which comes first: %s', async (_what, stray, status) => {
    const key = await generateKey(shared.url);
    const received = await converse(shared.service.port, [paymentText(key), stray], 2);
    expect(statusesIn(received)).toEqual([200, status]);
    expectReplay(await pay(shared.url, key), /(TXN\d+)/.exec(received)?.[1]);
  });
});
