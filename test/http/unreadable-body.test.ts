import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Ask, ask, generateKey } from '../../testkit/client/http-client.js';
import { expectAccepted, expectRefused, expectUnspent } from '../../testkit/client/payment-answers.js';
import { BODY_LIMIT_BYTES, GOOD_BODY, nested, paymentOfSize, withMember } from '../../testkit/client/payment-bodies.js';
import {
  draft,
  givenTransaction,
  idsOf,
  listTransactions,
  postTransaction,
  putStatus,
} from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const edited = (from: string, to: string): string => GOOD_BODY.replace(from, to);
const withText = (text: string): string => `{"amount":"100.50","currency":"USD","note":"${text}"}`;
const bytes = (...values: number[]): Buffer => withMember(Buffer.from(values));

/** Text that lenient readers of JSON accept, or fail on; then bytes inside a member that nobody reads. */
const NOT_JSON: readonly (readonly [what: string, bodies: readonly (string | Buffer)[]])[] = [
  ['white space only', ['', ' ', '  \n']],
  ['a single sign', ['{', '}', '[', '"', '\\']],
  ['a word', ['nul', 'undefined', 'NaN']],
  ['another format', ['amount=100.50&currency=USD', '<amount>5</amount>']],
  ['text that is cut off', [GOOD_BODY.slice(0, -1), GOOD_BODY.slice(0, -2)]],
  ['more than one document', [`${GOOD_BODY}}`, `${GOOD_BODY}${GOOD_BODY}`, `${GOOD_BODY} x`, `${GOOD_BODY},`]],
  ['a comma too many or too few', [edited('}', ',}'), edited('{', '{,'), edited(',', ',,'), edited(',', ' ')]],
  ['no colon', [edited(':', ' '), edited(':', '=')]],
  ['other quotes or none', [GOOD_BODY.replaceAll('"', "'"), GOOD_BODY.replaceAll(/"(?=\w+":)|(?<=\w)"(?=:)/g, '')]],
  ['comments', [`/* paid */${GOOD_BODY}`, `${GOOD_BODY}// paid`, edited(',', ',/**/')]],
  ['an expression', [edited('"100.50"', '"100" + ".50"')]],
  ...['01', '+1', '.5', '5.', '0x10', '1e', '-', '1_000', 'NaN', 'Infinity', '5n'].map(
    (number) => [`the number ${number}`, [edited('"100.50"', number), edited('}', `,"n":[${number}]}`)]] as const,
  ),
  ['escapes that JSON does not have', [withText('\\x41'), withText('\\u12'), withText('\\u{41}')]],
  ['raw control characters in a text', [withText('a\nb'), withText('a\tb'), withText('a\0b')]],
  ['NUL around it', [`\0${GOOD_BODY}`, `${GOOD_BODY}\0`]],
  ['other white space before it', [`\v${GOOD_BODY}`, `\u00a0${GOOD_BODY}`, `\u2028${GOOD_BODY}`]],
  ['a byte that UTF-8 never has', [bytes(0xff)]],
  ['a lonely continuation byte', [bytes(0x80)]],
  ['a UTF-8 sequence that breaks off', [bytes(0xe2, 0x82)]],
  ['an overlong UTF-8 sequence', [bytes(0xc0, 0xaf), bytes(0xc0, 0x80)]],
  ['a surrogate in UTF-8', [bytes(0xed, 0xa0, 0x80)]],
  ['a code point beyond Unicode', [bytes(0xf4, 0x90, 0x80, 0x80)]],
  ['Latin-1', [bytes(0xfc)]],
  ['UTF-16', [Buffer.from(GOOD_BODY, 'utf16le'), Buffer.from(`\ufeff${GOOD_BODY}`, 'utf16le')]],
  ['10,000 arrays that never close', ['['.repeat(10_000)]],
  ['7,900 arrays', [nested(7_900), edited('}', `,"x":${nested(7_900)}}`)]],
  ['2,700 objects', [`${'{"x":'.repeat(2_700)}0${'}'.repeat(2_700)}`]],
];

const TOO_LONG: readonly [what: string, body: string, headers?: Ask['headers']][] = [
  ['is one byte over 16 KiB', paymentOfSize(BODY_LIMIT_BYTES + 1)],
  ['is 1,000 bytes over 16 KiB', paymentOfSize(BODY_LIMIT_BYTES + 1_000)],
  ['is 128 KiB long', paymentOfSize(128 * 1024)],
  ['is over 16 KiB by bytes, not by characters', withText('\u20ac'.repeat(BODY_LIMIT_BYTES / 3))],
  ['comes in chunks without a length', paymentOfSize(BODY_LIMIT_BYTES + 1), { 'Transfer-Encoding': 'chunked' }],
  ['is 10,000 arrays', nested(10_000)],
];

const OTHER_TYPES = [
  ...['text/plain', 'text/json', 'text/json-ish', 'application/xml', 'application/x-www-form-urlencoded'],
  ...['multipart/form-data', 'multipart/form-data; boundary=x', 'application/jsonp', 'application/octet-stream'],
  ...['json', 'nonsense', 'application', '*/*', ';', '', 'application/json, text/plain'],
  ...['application/json; charset=utf-16', 'application/json; charset=iso-8859-1', 'application/json;charset="latin1"'],
];

const JSON_TYPES = [
  ...['application/json; charset=utf-8', 'application/json;charset=UTF-8', 'application/json; charset="utf-8"'],
  ...['Application/JSON', 'APPLICATION/JSON', 'application/json;charset="UTF-8"'],
];

/** Whatever is sent: a 4xx with the error body, no key spent, no lock left, nothing created or changed (decisions P3, T3). */
describeDeployments('a body that cannot be read', (deployment) => {
  const shared = shareService(deployment);

  /** By each endpoint that takes a body for payments and transactions; what is not there cannot be changed. */
  async function refuse(status: number, body: Ask['body'] = '', headers: Ask['headers'] = {}): Promise<void> {
    await expectRefused(shared.url, body, status, { headers });
    expectError(await postTransaction(shared.url, body, headers), status);
    expectError(await putStatus(shared.url, 1, body, headers), status);
  }

  it.each(NOT_JSON)('is refused with 400: %s', async (_what, bodies) => {
    await Promise.all(bodies.map((body) => refuse(400, body)));
  });

  it.each(TOO_LONG)('is refused with 413 when it %s', async (_what, body, headers) => {
    await refuse(413, body, headers);
  });

  it.each(OTHER_TYPES)('is refused with 415 when it is called %j', async (type) => {
    await refuse(415, GOOD_BODY, { 'Content-Type': type });
  });

  it('is refused with 415 when it is not called anything', async () => {
    const key = await generateKey(shared.url);
    const request = { method: 'POST', headers: { 'Idempotency-Key': key }, body: GOOD_BODY };
    for (const path of ['/api/payment', '/api/transactions']) {
      expectError(await ask(`${shared.url}${path}`, request), 415);
    }
    await expectUnspent(shared.url, key);
  });

  it('is refused with 415 when it is compressed, or only claims to be', async () => {
    await refuse(415, gzipSync(GOOD_BODY), { 'Content-Encoding': 'gzip' });
    for (const coding of ['gzip', 'br', 'nonsense']) await refuse(415, GOOD_BODY, { 'Content-Encoding': coding });
  });

  it('is neither one of exactly 16 KiB nor one in chunks', async () => {
    await expectAccepted(shared.url, paymentOfSize(BODY_LIMIT_BYTES));
    await expectAccepted(shared.url, GOOD_BODY, { 'Transfer-Encoding': 'chunked' });
  });

  it.each(JSON_TYPES)('is not what %s is', async (type) => {
    await expectAccepted(shared.url, GOOD_BODY, { 'Content-Type': type });
    expect((await postTransaction(shared.url, draft(), { 'Content-Type': type })).status).toBe(201);
  });

  it('leaves the transactions and their ids as they were', async () => {
    const before = await givenTransaction(shared.url);
    const ids = idsOf(await listTransactions(shared.url));
    for (const [, bodies] of NOT_JSON) for (const body of bodies) await postTransaction(shared.url, body);
    expect(idsOf(await listTransactions(shared.url))).toEqual(ids);
    expect((await givenTransaction(shared.url)).transactionId).toBe(before.transactionId + 1);
  });
});
