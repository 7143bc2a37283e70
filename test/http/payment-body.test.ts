import fc from 'fast-check';
import { expect, it } from 'vitest';
import { casesOf } from '../../testkit/cases.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Ask, ask, generateKey, pay } from '../../testkit/client/http-client.js';
import {
  expectAccepted,
  expectFirst,
  expectRefused,
  expectUnspent,
  UNKNOWN_KEY,
} from '../../testkit/client/payment-answers.js';
import {
  BODY_LIMIT_BYTES,
  GOOD_BODY,
  paymentOfSize,
  UNREADABLE_BODIES,
  withMember,
} from '../../testkit/client/payment-bodies.js';
import { resolvePayment } from '../../testkit/client/payment-records.js';
import {
  draft,
  givenTransaction,
  idsOf,
  listTransactions,
  postTransaction,
  putStatus,
} from '../../testkit/client/transactions.js';
import { describeDeployments, describeOneDeployment } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

/** One of each kind; `test/unit/json-body` compares what is read with `JSON.parse`. */
const NOT_JSON = [
  ...['', ' ', '\0', '{', 'nul', 'amount=100.50&currency=USD', `${GOOD_BODY}}`, `${GOOD_BODY} x`, `/**/${GOOD_BODY}`],
  ...[GOOD_BODY.replaceAll('"', "'"), GOOD_BODY.replace('"100.50"', '01'), GOOD_BODY.replace('100', '\n')],
  ...[Buffer.from(`\ufeff${GOOD_BODY}`, 'utf16le'), withMember(Buffer.from([0xed, 0xa0, 0x80])), '['.repeat(10_000)],
  `${'{"x":'.repeat(2_700)}0${'}'.repeat(2_700)}`,
];

/** By more than the limit in bytes, not in characters. */
const TOO_LONG: readonly [what: string, body: string, headers?: Ask['headers']][] = [
  ['is over 16 KiB', paymentOfSize(BODY_LIMIT_BYTES + 1)],
  ['is over 16 KiB by bytes, not by characters', GOOD_BODY.replace('}', `,"note":"${'\u20ac'.repeat(5_500)}"}`)],
  ['comes in chunks without a length', paymentOfSize(BODY_LIMIT_BYTES + 1), { 'Transfer-Encoding': 'chunked' }],
];

const OTHER_TYPES = [
  ...['text/plain', 'text/json', 'multipart/form-data; boundary=x', '*/*', ';', ''],
  ...['application/jsonp', 'application/json, text/plain', 'application/json; charset=utf-16'],
  'application/json;charset="latin1"',
];
const JSON_TYPES = [
  ...['application/json; charset="utf-8"', 'application/json;charset=UTF-8', 'APPLICATION/JSON'],
  'application/json; charset=utf8',
];

/** For any such body: a 4xx with the error body, no key spent, no lock left, nothing created or changed (rules P3, T3). */
describeOneDeployment('a body that cannot be read', (deployment) => {
  const shared = shareService(deployment);

  /** By each endpoint that takes a body, before it looks for what is named: what is not there cannot be changed. */
  async function refuse(status: number, body: Ask['body'] = '', headers: Ask['headers'] = {}): Promise<void> {
    await expectRefused(shared.url, body, status, { headers });
    expectError(await postTransaction(shared.url, body, headers), status);
    expectError(await putStatus(shared.url, 1, body, headers), status);
    expectError(await resolvePayment(shared.url, UNKNOWN_KEY, body, headers), status);
  }

  it('is refused with 400 when it is no JSON, and leaves the transactions and their ids as they were', async () => {
    const before = await givenTransaction(shared.url);
    await Promise.all(NOT_JSON.map((body) => refuse(400, body)));
    expect(idsOf(await listTransactions(shared.url))).toEqual([before.transactionId]);
    expect((await givenTransaction(shared.url)).transactionId).toBe(before.transactionId + 1);
  });

  it.each(UNREADABLE_BODIES)('is refused with $status by each endpoint: $label', async ({ status, body, headers }) => {
    await refuse(status, body, headers);
  });

  it.each(TOO_LONG)('is refused with 413 when it %s', async (_what, body, headers) => {
    await refuse(413, body, headers);
  });

  it.each(OTHER_TYPES)('is refused with 415 when it is called %j', async (type) => {
    await refuse(415, GOOD_BODY, { 'Content-Type': type });
  });

  it.each(['br', 'nonsense'])('is refused with 415 when it claims to be compressed: %s', async (coding) => {
    await refuse(415, GOOD_BODY, { 'Content-Encoding': coding });
  });

  it('is refused with 415 when it is not called anything', async () => {
    const key = await generateKey(shared.url);
    const request = { method: 'POST', headers: { 'Idempotency-Key': key }, body: GOOD_BODY };
    for (const path of ['/api/payment', '/api/transactions'])
      expectError(await ask(`${shared.url}${path}`, request), 415);
    await expectUnspent(shared.url, key);
  });

  it('is neither one of exactly 16 KiB, nor one in chunks, nor one called JSON in another way', async () => {
    await expectAccepted(shared.url, paymentOfSize(BODY_LIMIT_BYTES));
    await expectAccepted(shared.url, GOOD_BODY, { 'Transfer-Encoding': 'chunked' });
    for (const type of JSON_TYPES) {
      await expectAccepted(shared.url, GOOD_BODY, { 'Content-Type': type });
      expect((await postTransaction(shared.url, draft(), { 'Content-Type': type })).status).toBe(201);
    }
  });

  it('is not one with a byte order mark in front, by each endpoint', async () => {
    await expectAccepted(shared.url, `\ufeff${GOOD_BODY}`);
    const created = await postTransaction(shared.url, `\ufeff${JSON.stringify(draft())}`);
    expect(created.status).toBe(201);
    const { transactionId } = created.json<{ transactionId: number }>();
    expect((await putStatus(shared.url, transactionId, '\ufeff{"status":"FLAGGED"}')).status).toBe(200);
    const resolved = await resolvePayment(shared.url, UNKNOWN_KEY, '\ufeff{"outcome":"declined","reason":"none"}');
    expectError(resolved, 404);
  });
});

/** Unknown members, which may stand before and after. */
const IGNORED =
  '"note":[{"amount":"7","currency":"EUR"}],"n":1e999,"Amount":"7","CURRENCY":"EUR","amount ":"8",' +
  '"__proto__":{"amount":"7","isAdmin":true},"constructor":{"prototype":{"amount":"7"}}';

/** White space, order and escapes; then amounts and currencies as JSON text, so that numbers arrive as they stand here. */
const ACCEPTED = [
  '\r\n\t {\n\t"currency" : "USD" ,\r\n"am\\u006funt":"100.50" } \n',
  ...['"0.01"', '"\\u0031\\u002e5"', '"1234567890123.45"', '100.50', '123456789012345'].map(
    (amount) => `{"amount":${amount},"currency":"\\u0055sd"}`,
  ),
  '{"amount":"999999999999999","currency":"JPY"}',
  '{"amount":"0.0001","currency":"CLF"}',
  `{${IGNORED},"amount":"100.50","currency":"USD"}`,
  `{"amount":"100.50","currency":"USD","\\u005f_proto__":null,${IGNORED.replace('__proto__', 'x')}}`,
];

const SQL = [`"1'; DROP TABLE payments; --"`, `"100.50' OR '1'='1"`];
/** First amounts of another type, then texts, then numbers. `test/unit/money` has every form. */
const REFUSED_AMOUNTS = [
  ...['true', 'null', '["100.50"]', '{"value":"5"}', '{"$gt":""}', '{"__proto__":{"length":6}}', '{"toString":"5"}'],
  ...['""', '"1e3"', '"-1"', '"0"', '"0.001"', '"100.50\\n"', '"\\u0000100.50"', '"\u0661\u0660"', '"\\ud800"'],
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the text itself is the attack.
  ...['"1234567890123456"', `"${'9'.repeat(15_000)}"`, '"${7*7}"', '"1; SELECT pg_sleep(10)"', ...SQL],
  ...['0', '-0', '-1', '1e0', '1.5e1', '1e400', '9007199254740993', '100.500', '9'.repeat(15_000)],
];
/** Long s and dotless i become ASCII when they are upper-cased. */
const BAD_CURRENCIES = [
  ...['null', '840', '["USD"]', '{"code":"USD"}', '{"$ne":null}', '""', '" USD"', '"USD\\u0000"', '"US"', '"{{7*7}}"'],
  ...['"ZZZ"', '"XAU"', '"u\u017fd"', '"\u0131qd"', '"U\u0405D"', '"\\udc00"', '"__proto__"', '"hasOwnProperty"'],
  ...[`"${'U'.repeat(15_000)}"`, ...SQL],
];

/** The text between the braces, by the member that the refusal names. */
const REFUSED: readonly [names: RegExp, contents: readonly string[]][] = [
  [/amount/, ['"currency":"USD"', '"Amount":"100.50","currency":"USD"', '"payment":{"amount":"1","currency":"USD"}']],
  [/amount/, ['"__proto__":{"amount":"100.50"},"currency":"USD"', '"amount":"1","am\\u006funt":"1","currency":"USD"']],
  [/currency/, ['"amount":"100.50"', '"constructor":{"prototype":{"currency":"USD"}},"amount":"1"']],
  [/currency/, ['"amount":"1","currency":"USD","curr\\u0065ncy":"EUR"']],
  [/amount/, REFUSED_AMOUNTS.map((amount) => `"amount":${amount},"currency":"USD"`)],
  [/currency/, BAD_CURRENCIES.map((currency) => `"amount":"5","currency":${currency}`)],
];

/** Rule P4: a refusal names the member and costs nothing. */
describeDeployments('the body of a payment', (deployment) => {
  const service = shareService(deployment);

  it.each(ACCEPTED)('is accepted: %j', async (body) => {
    await expectAccepted(service.url, body);
  });

  it.each(REFUSED)('is refused, and the refusal names %s: %j', async (message, contents) => {
    await Promise.all(contents.map((content) => expectRefused(service.url, `{${content}}`, 400, { message })));
  });

  it('is refused when it is no object, or one of 1,000 other members', async () => {
    const members = Array.from({ length: 1_000 }, (_, index) => `"m${index}":0`);
    for (const body of [`[${GOOD_BODY}]`, 'null', '100.50', '"100.50"', `{${members}}`]) {
      await expectRefused(service.url, body, 400);
    }
  });
});

/** Inputs of one run are sent side by side. */
const BATCH = 20;

/** Payments with every part replaced by something that JSON can say. */
const paymentLike = fc.record(
  { amount: fc.oneof(fc.constant('100.50'), fc.jsonValue()), currency: fc.oneof(fc.constant('USD'), fc.jsonValue()) },
  { requiredKeys: [] },
);

/** A good body with a few bytes changed: nearer to a payment than noise ever comes. */
const damagedBody = fc
  .array(fc.tuple(fc.nat(GOOD_BODY.length - 1), fc.nat(0xff)), { minLength: 1, maxLength: 3 })
  .map((changes) => {
    const body = Buffer.from(GOOD_BODY);
    for (const [at, byte] of changes) body[at] = byte;
    return body;
  });

const anyBody = fc.oneof(
  fc.uint8Array({ maxLength: 1_000 }).map((bytes) => Buffer.from(bytes)),
  damagedBody,
  paymentLike.map((value) => JSON.stringify(value)),
);

/** Headers that this service or a library below it reads, and what Node's client agrees to send in one. */
const anyHeaders = fc.dictionary(
  fc.constantFrom(
    ...['Content-Type', 'Content-Encoding', 'Content-Language', 'Accept', 'Accept-Encoding', 'Accept-Charset', 'Range'],
    ...['X-Request-Id', 'If-None-Match', 'If-Match', 'Cookie', 'Origin', 'Prefer', 'Authorization', 'Forwarded'],
    ...['X-Forwarded-For', 'X-Forwarded-Host', 'traceparent', 'X-HTTP-Method-Override', 'Idempotent-Replayed'],
  ),
  fc.string({
    unit: fc.integer({ min: 0x20, max: 0xff }).map((code) => (code === 0x7f ? '\t' : String.fromCharCode(code))),
    maxLength: 200,
  }),
  { minKeys: 1, maxKeys: 4 },
);

/** Any body with good headers, or a good body with any headers. */
const anyPayment = fc.oneof(
  { weight: 2, arbitrary: anyBody.map((body) => ({ body, headers: {} })) },
  { weight: 1, arbitrary: anyHeaders.map((headers) => ({ body: GOOD_BODY, headers })) },
);

describeOneDeployment('an arbitrary payment', (deployment) => {
  const shared = shareService(deployment);

  /** The payment was made, or it was refused with a 4xx and the key is as it was. */
  async function expectPaidOrUnspent({ body, headers }: { body: string | Buffer; headers: Ask['headers'] }) {
    const key = await generateKey(shared.url);
    const answer = await pay(shared.url, key, body, { headers });
    if (answer.status === 200) {
      expectFirst(answer);
      return;
    }
    expectError(answer, answer.status);
    expect(Math.floor(answer.status / 100)).toBe(4);
    await expectUnspent(shared.url, key);
  }

  it('with any body, or any value of any header, gets a 4xx that costs nothing, or pays', () => {
    const batch = fc.array(anyPayment, { minLength: 1, maxLength: BATCH, size: 'max' });
    const all = fc.asyncProperty(
      batch,
      async (payments) => void (await Promise.all(payments.map(expectPaidOrUnspent))),
    );
    return fc.assert(all, { numRuns: casesOf(90) });
  });
});
