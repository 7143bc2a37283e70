import { describe, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, generateKey, transactionIdOf } from '../../testkit/client/http-client.js';
import { expectFirst, expectReplay, expectUnspent } from '../../testkit/client/payment-answers.js';
import { BODY_LIMIT_BYTES, GOOD_BODY } from '../../testkit/client/payment-bodies.js';
import { exchange, requestText, sendAndVanish } from '../../testkit/client/raw-http.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

const POST = 'POST /api/payment HTTP/1.1';
const JSON_TYPE = 'Content-Type: application/json';
const LENGTH = `Content-Length: ${GOOD_BODY.length}`;

/** A good payment as text, with these header lines added to it. */
function payment(key: string, ...lines: string[]): string {
  return requestText(POST, [`Idempotency-Key: ${key}`, JSON_TYPE, ...lines], GOOD_BODY);
}

/** What no HTTP client sends and every port on the internet receives. All but the broken part is a good payment. */
const MALFORMED: [label: string, text: (key: string) => string | Buffer, status?: number][] = [
  ['noise', () => 'NOISE\r\n\r\n'],
  ['the first bytes of TLS', () => Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03])],
  ['an unknown method', (key) => payment(key, LENGTH).replace('POST', 'BREW'), 501],
  ['an unknown HTTP version', (key) => payment(key, LENGTH).replace('HTTP/1.1', 'HTTP/9.9'), 505],
  ['version 2 of HTTP in the words of version 1', (key) => payment(key, LENGTH).replace('HTTP/1.1', 'HTTP/2.0'), 505],
  ['no Host', (key) => payment(key, LENGTH).replace(/Host: .*\r\n/, '')],
  ['two Hosts', (key) => payment(key, LENGTH, 'Host: 127.0.0.1')],
  ['two Hosts in version 1.0', (key) => payment(key, LENGTH, 'host: b').replace('HTTP/1.1', 'HTTP/1.0')],
  ['a Host that is none', (key) => payment(key, LENGTH).replace('Host: 127.0.0.1', 'Host: a b')],
  ['a Host with a path', (key) => payment(key, LENGTH).replace('Host: 127.0.0.1', 'Host: a/b')],
  ['NUL in the key', (key) => payment(`${key}\0`, LENGTH)],
  ['a header without a colon', (key) => payment(key, LENGTH, 'nonsense')],
  ['a header line that goes on in the next', (key) => payment(key, LENGTH, 'X-Folded: one', ' two')],
  ['a space after the request line', (key) => payment(key, LENGTH).replace('Host', ' Host')],
  ['a space before a colon', (key) => payment(key, LENGTH, 'X-Y : 1')],
  ['a space in a header name', (key) => payment(key, LENGTH, 'X Y: 1')],
  ['a length that is no number', (key) => payment(key, 'Content-Length: many')],
  ['a negative length', (key) => payment(key, 'Content-Length: -1')],
  ['two different lengths', (key) => payment(key, LENGTH, 'Content-Length: 5')],
  ['a length beside chunks', (key) => payment(key, LENGTH, 'Transfer-Encoding: chunked')],
  ['a coding beside chunks', (key) => payment(key, 'Transfer-Encoding: gzip, chunked'), 501],
  [
    'a coding in a line of its own',
    (key) => payment(key, 'Transfer-Encoding: gzip', 'Transfer-Encoding: chunked'),
    501,
  ],
  ['chunks that are no last coding', (key) => payment(key, 'Transfer-Encoding: chunked, gzip')],
  ['a coding without chunks', (key) => payment(key, 'Transfer-Encoding: gzip')],
  ['chunks twice', (key) => payment(key, 'Transfer-Encoding: chunked, chunked')],
  ['chunks in version 1.0', (key) => payment(key, 'Transfer-Encoding: chunked').replace('HTTP/1.1', 'HTTP/1.0')],
  [
    'a target without end',
    (key) => payment(key, LENGTH).replace('/api/payment', `/api/payment?${'x'.repeat(20_000)}`),
    414,
  ],
  [
    'a target that is too long',
    (key) => payment(key, LENGTH).replace('/api/payment', `/api/payment?${'x'.repeat(12_000)}`),
    414,
  ],
  ['chunks without their sizes', (key) => payment(key, 'Transfer-Encoding: chunked')],
];

describeDeployments('broken HTTP', (deployment) => {
  const shared = shareService(deployment);

  const answerTo = async (bytes: string | Buffer): Promise<Answer> => {
    const answer = await exchange(shared.service.port, bytes);
    if (!answer) throw new Error('the connection was closed without an answer');
    return answer;
  };

  it('accepts the payment that the broken ones below are made from', async () => {
    expectFirst(await answerTo(payment(await generateKey(shared.url), LENGTH)));
  });

  it.each(MALFORMED)('with %s is refused and spends no key', async (_label, text, status = 400) => {
    const key = await generateKey(shared.url);
    expectError(await answerTo(text(key)), status);
    await expectUnspent(shared.url, key);
  });

  describe.each([
    ['one header', (bytes: number) => [`X-Long: ${'a'.repeat(bytes)}`]],
    ['the key itself', (bytes: number) => [`Idempotency-Key: ${'a'.repeat(bytes)}`]],
    [
      'many headers',
      (bytes: number) => Array.from({ length: bytes / 50 }, (_, index) => `X-${index}: ${'a'.repeat(50)}`),
    ],
  ])('with too long a header section, for %s', (_label, lines) => {
    it('is refused with 431 and spends no key', async () => {
      const key = await generateKey(shared.url);
      expectError(await answerTo(payment(key, LENGTH, ...lines(40_000))), 431);
      await expectUnspent(shared.url, key);
    });
  });

  it('with an expectation that nobody can meet is refused with 417 and spends no key', async () => {
    const key = await generateKey(shared.url);
    expectError(await answerTo(payment(key, LENGTH, 'Expect: wonders')), 417);
    await expectUnspent(shared.url, key);
  });

  it('refuses a body by its declared length, without waiting for the rest of it', async () => {
    const key = await generateKey(shared.url);
    expectError(await answerTo(payment(key, `Content-Length: ${BODY_LIMIT_BYTES + 1}`)), 413);
    await expectUnspent(shared.url, key);
  });

  describe('with a body shorter than its length', () => {
    // What has come is a whole JSON document: only the missing bytes say that it is not what the client meant to send.
    const brokenOff = (key: string): string => payment(key, `Content-Length: ${GOOD_BODY.length + 10}`);

    it('leaves the key unspent when the client ends its half of the connection', async () => {
      const key = await generateKey(shared.url);
      const answer = await exchange(shared.service.port, brokenOff(key), { halfClose: true });
      if (answer) expectError(answer, 400);
      await expectUnspent(shared.url, key);
    });

    it('leaves the key unspent when the client vanishes', async () => {
      const key = await generateKey(shared.url);
      for (let attempt = 0; attempt < 5; attempt++) await sendAndVanish(shared.service.port, brokenOff(key));
      await expectUnspent(shared.url, key);
    });

    it('leaves the key unspent when chunks break off', async () => {
      const key = await generateKey(shared.url);
      const chunk = `${GOOD_BODY.length.toString(16)}\r\n${GOOD_BODY}\r\n`;
      const head = payment(key, 'Transfer-Encoding: chunked').slice(0, -GOOD_BODY.length);
      const answer = await exchange(shared.service.port, head + chunk, { halfClose: true });
      if (answer) expectError(answer, 400);
      await expectUnspent(shared.url, key);
    });
  });

  it('pays at most once, and leaves no lock, when the client vanishes after a whole request', async () => {
    const key = await generateKey(shared.url);
    await sendAndVanish(shared.service.port, payment(key, LENGTH));
    // Both requests may be at work for a moment, so a 409 now is right; one that stays is a lock left behind.
    const paid = await until<Answer>('the payment is done', 10_000, async () => {
      const answer = await answerTo(payment(key, LENGTH));
      return answer.status === 200 && answer;
    });
    const transactionId = transactionIdOf(paid);
    expectReplay(await answerTo(payment(key, LENGTH)), transactionId);
  });
});
