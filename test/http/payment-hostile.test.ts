import { gzipSync } from 'node:zlib';
import { describe, it } from 'vitest';
import { type Ask, ask, generateKey } from '../../testkit/client/http-client.js';
import {
  expectAccepted,
  expectBodyRefused,
  expectRefused,
  expectUnspent,
} from '../../testkit/client/payment-answers.js';
import { BODY_LIMIT_BYTES, GOOD_BODY, nested, paymentOfSize, withMember } from '../../testkit/client/payment-bodies.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

/** Text that lenient readers of JSON let through, or stumble over. */
const MALFORMED_JSON: string[] = [
  ...[' ', '{', '}', '[', '"', 'nul', 'undefined', 'NaN', '\\', 'amount=100.50&currency=USD', '<amount>5</amount>'],
  // Cut off, or more than one document.
  '{"amount":"100.50","currency":"USD"',
  '{"amount":"100.50","currency":"USD',
  `${GOOD_BODY}}`,
  `${GOOD_BODY}${GOOD_BODY}`,
  `${GOOD_BODY} x`,
  `${GOOD_BODY},`,
  // JavaScript and JSON5, but not JSON.
  '{"amount":"100.50","currency":"USD",}',
  '{,"amount":"100.50","currency":"USD"}',
  '{"amount":"100.50",,"currency":"USD"}',
  '{"amount":"100.50" "currency":"USD"}',
  '{"amount" "100.50","currency":"USD"}',
  '{"amount"="100.50","currency":"USD"}',
  "{'amount':'100.50','currency':'USD'}",
  '{amount:"100.50",currency:"USD"}',
  `/* paid */${GOOD_BODY}`,
  `${GOOD_BODY}// paid`,
  '{"amount":"100.50",/**/"currency":"USD"}',
  '{"amount":"100" + ".50","currency":"USD"}',
  // Numbers that JSON does not have.
  ...['01', '+1', '.5', '5.', '0x10', '1e', '-', '1_000', 'NaN', 'Infinity', '5n'].map(
    (number) => `{"amount":${number},"currency":"USD"}`,
  ),
  '{"amount":"100.50","currency":"USD","n":[01]}',
  // Strings that JSON does not have.
  '{"amount":"100.50","currency":"USD","note":"\\x41"}',
  '{"amount":"100.50","currency":"USD","note":"\\u12"}',
  '{"amount":"100.50","currency":"USD","note":"\\u{41}"}',
  '{"amount":"100.50","currency":"USD","note":"a\nb"}',
  '{"amount":"100.50","currency":"USD","note":"a\tb"}',
  '{"amount":"100.50","currency":"USD","note":"a\0b"}',
  // NUL and white space that JSON does not have.
  `\0${GOOD_BODY}`,
  `${GOOD_BODY}\0`,
  `\v${GOOD_BODY}`,
  `\u00a0${GOOD_BODY}`,
  `\u2028${GOOD_BODY}`,
];

/** Inside a member that nobody reads: a reader that replaces bad bytes would take the payment. */
const BAD_UTF8: [label: string, bytes: number[]][] = [
  ['a byte that UTF-8 never has', [0xff]],
  ['a lonely continuation byte', [0x80]],
  ['a sequence that breaks off', [0xe2, 0x82]],
  ['an overlong encoding', [0xc0, 0xaf]],
  ['an encoded lone surrogate', [0xed, 0xa0, 0x80]],
  ['a code point beyond Unicode', [0xf4, 0x90, 0x80, 0x80]],
  ['Latin-1', [0xfc]],
];

const HOSTILE_CONTENT: string[] = [
  // Lone surrogates, written as JSON escapes: readable, and neither an amount nor a currency.
  '{"amount":"\\ud800","currency":"USD"}',
  '{"amount":"100.50\\udfff","currency":"USD"}',
  '{"amount":"100.50","currency":"\\udc00"}',
  '{"amount":"100.50","currency":"US\\ud83d"}',
  '{"amount":"\\u0000100.50","currency":"USD"}',
  '{"amount":"100.50","currency":"USD\\u0000"}',
  `{"amount":"${'9'.repeat(15_000)}","currency":"USD"}`,
  `{"amount":${'9'.repeat(15_000)},"currency":"USD"}`,
  `{"amount":1e${'9'.repeat(15_000)},"currency":"USD"}`,
  `{"amount":"100.50","currency":"${'U'.repeat(15_000)}"}`,
  `{${Array.from({ length: 1_000 }, (_, index) => `"m${index}":0`).join(',')}}`,
  `[${'0,'.repeat(8_000)}0]`,
  '{"__proto__":{"amount":"100.50","currency":"USD"}}',
  '{"constructor":{"prototype":{"amount":"100.50","currency":"USD"}}}',
  '{"amount":{"__proto__":{"length":6}},"currency":"USD"}',
  '{"amount":{"$gt":""},"currency":{"$ne":null}}',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the text itself is the attack.
  '{"amount":"${7*7}","currency":"{{7*7}}"}',
  `{"amount":"1; SELECT pg_sleep(10)","currency":"USD'); DROP TABLE payments; --"}`,
];

const DEEP: [label: string, body: string, status: number][] = [
  ['10,000 arrays that never close', '['.repeat(10_000), 400],
  ['7,900 arrays', nested(7_900), 400],
  ['7,900 arrays in a member that nobody reads', `{"amount":"100.50","currency":"USD","x":${nested(7_900)}}`, 400],
  ['2,700 objects', `${'{"x":'.repeat(2_700)}0${'}'.repeat(2_700)}`, 400],
  ['10,000 arrays that close, which is too long', nested(10_000), 413],
];

const HEADERS_415: [label: string, headers: Ask['headers']][] = [
  ...[
    ...['text/plain', 'text/json', 'application/xml', 'application/x-www-form-urlencoded', 'multipart/form-data'],
    ...[
      'application/jsonp',
      'application/octet-stream',
      'json',
      'application',
      '*/*',
      ';',
      '',
      'application/json, text/plain',
    ],
    ...[
      'application/json; charset=utf-16',
      'application/json; charset=iso-8859-1',
      'application/json;charset="latin1"',
    ],
  ].map((type): [string, Ask['headers']] => [`Content-Type: ${type}`, { 'Content-Type': type }]),
  ['Content-Encoding: br', { 'Content-Encoding': 'br' }],
  ['Content-Encoding: nonsense', { 'Content-Encoding': 'nonsense' }],
];

const GOOD_CONTENT_TYPES = [
  'application/json; charset=utf-8',
  'application/json;charset=UTF-8',
  'application/json; charset="utf-8"',
  'Application/JSON',
];

/** Whatever is sent: a 4xx with the error body, no key spent, no lock left, and the next good request works. */
describeDeployments('hostile payments', (deployment) => {
  const service = shareService(deployment);

  const refuses = (status: number, body: Ask['body'], headers: Ask['headers'] = {}): Promise<void> =>
    expectRefused(service.url, body, status, { headers });

  it.each(MALFORMED_JSON)('refuses malformed JSON: %j', async (body) => {
    await refuses(400, body);
  });

  it.each(BAD_UTF8)('refuses %s', async (_label, bytes) => {
    await refuses(400, withMember(Buffer.from(bytes)));
  });

  it('refuses UTF-16, with and without a byte order mark', async () => {
    await refuses(400, Buffer.from(GOOD_BODY, 'utf16le'));
    await refuses(400, Buffer.from(`\ufeff${GOOD_BODY}`, 'utf16le'));
  });

  it.each(HOSTILE_CONTENT.map((body) => [body.slice(0, 80), body]))('refuses the content %s', async (_start, body) => {
    await refuses(400, body);
  });

  it.each(DEEP)('refuses %s', async (_label, body, status) => {
    await refuses(status, body);
  });

  describe('size', () => {
    it('accepts a body of exactly 16 KiB', async () => {
      await expectAccepted(service.url, paymentOfSize(BODY_LIMIT_BYTES));
    });

    it.each([1, 1_000, 40_000])('refuses a body that is %i bytes longer', async (bytes) => {
      await refuses(413, paymentOfSize(BODY_LIMIT_BYTES + bytes));
    });

    it('counts bytes, not characters', async () => {
      const note = '\u20ac'.repeat(BODY_LIMIT_BYTES / 3);
      await refuses(413, `{"amount":"100.50","currency":"USD","note":"${note}"}`);
    });

    it('refuses a body over 16 KiB that comes in chunks without a length', async () => {
      await refuses(413, paymentOfSize(BODY_LIMIT_BYTES + 1), { 'Transfer-Encoding': 'chunked' });
    });

    it('accepts a payment that comes in chunks', async () => {
      await expectAccepted(service.url, GOOD_BODY, { 'Transfer-Encoding': 'chunked' });
    });

    it('refuses an empty body', async () => {
      await refuses(400, '');
    });
  });

  describe('media type', () => {
    it.each(HEADERS_415)('refuses %s', async (_label, headers) => {
      await refuses(415, GOOD_BODY, headers);
    });

    it('refuses a body without Content-Type', async () => {
      const key = await generateKey(service.url);
      const answer = await ask(`${service.url}/api/payment`, {
        method: 'POST',
        headers: { 'Idempotency-Key': key },
        body: GOOD_BODY,
      });
      expectBodyRefused(answer, 415);
      await expectUnspent(service.url, key);
    });

    it('refuses a compressed body, and one that only claims to be', async () => {
      await refuses(415, gzipSync(GOOD_BODY), { 'Content-Encoding': 'gzip' });
      await refuses(415, GOOD_BODY, { 'Content-Encoding': 'gzip' });
    });

    it.each(GOOD_CONTENT_TYPES)('accepts Content-Type: %s', async (type) => {
      await expectAccepted(service.url, GOOD_BODY, { 'Content-Type': type });
    });
  });
});
