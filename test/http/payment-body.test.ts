import { expect, it } from 'vitest';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import {
  expectAccepted,
  expectBodyRefused,
  expectRefused,
  expectUnspent,
} from '../../testkit/client/payment-answers.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

type Texts = readonly string[];

/** Decision P4: the members of the body. What follows is the text between the braces, by the member that is refused. */
const REFUSED_MEMBERS: readonly (readonly [why: string, member: RegExp, contents: Texts])[] = [
  [
    'amount twice',
    /amount/,
    ['"amount":"1","amount":"1","currency":"USD"', '"amount":"1","amount":"9","currency":"USD"'],
  ],
  ['amount twice, the second with an escape', /amount/, ['"amount":"1","am\\u006funt":"2","currency":"USD"']],
  ['currency twice, the second with an escape', /currency/, ['"amount":"1","currency":"USD","curr\\u0065ncy":"EUR"']],
  ['no member, or a payment one level too deep', /amount|currency/, ['', '"payment":{"amount":"1","currency":"USD"}']],
  ['no amount', /amount/, ['"currency":"USD"', '"Amount":"100.50","currency":"USD"']],
  ['no currency', /currency/, ['"amount":"100.50"', '"amount":"100.50","Currency":"USD"']],
  ['an amount that only a prototype has', /amount/, ['"__proto__":{"amount":"100.50"},"currency":"USD"']],
  ['a currency that only a prototype has', /currency/, ['"constructor":{"prototype":{"currency":"USD"}},"amount":"1"']],
];

const IGNORED_MEMBERS: Texts = [
  '"note":[{"amount":"7","currency":"EUR"}]',
  '"Amount":"7","CURRENCY":"EUR","amount ":"8"',
  '"__proto__":{"amount":"7","isAdmin":true}',
  '"\\u005f_proto__":null',
  '"constructor":{"prototype":{"amount":"7"}}',
  '"n":1e999',
];

/** The same payment to a reader of JSON: order, white space and escapes do not matter. */
const WRITTEN_OTHERWISE: Texts = [
  '{"currency":"USD","amount":"100.50"}',
  '\r\n\t {\n\t"amount" : "100.50" ,\r\n"currency":"USD" } \n',
  '{"am\\u006funt":"100.50","\\u0063urrency":"USD"}',
];

const NOT_AN_OBJECT: Texts = ['[]', '[{"amount":"1","currency":"USD"}]', 'null', 'true', '100.50', '"100.50"', '""'];

/** Amounts as JSON text, so that numbers reach the service as they stand here. */
const ACCEPTED: readonly (readonly [what: string, currency: string, amounts: Texts])[] = [
  ['plain decimals', '"USD"', ['"100.50"', '"100"', '"100.5"', '"1.00"', '"0.01"', '"0.10"', '"10"']],
  ['escapes', '"\\u0055SD"', ['"\\u0031\\u002e5"']],
  ['15 digits', '"USD"', ['"123456789012345"', '"1234567890123.45"']],
  ['JSON numbers, judged by their text', '"USD"', ['100.50', '100', '0.01', '123456789012345', '1234567890123.45']],
  ['no decimals', '"JPY"', ['"5"', '"999999999999999"']],
  ['three decimals', '"KWD"', ['"0.001"', '"999999999999.999"']],
  ['four decimals', '"CLF"', ['"0.0001"', '"99999999999.9999"']],
  ['lower case', '"usd"', ['"100.50"']],
  ['mixed case', '"uSd"', ['"100.50"']],
];

const REFUSED_AMOUNTS: readonly (readonly [why: string, amounts: Texts])[] = [
  ['another type', ['true', 'false', 'null', '[]', '[5]', '["100.50"]', '{}', '{"value":"5"}', '{"toString":"5"}']],
  ['nothing in it', ['""', '" "']],
  ['separators', ['" 1"', '"1 "', '"1 000"', '"1_000"', '"1,5"', '"1,000.00"']],
  ['a sign or a unit', ['"+1"', '"-1"', '"-0"', '"$5"', '"5 USD"', '"1n"', '"1%"', '"1/2"']],
  // What a pattern without anchors, or with the wrong ones, lets through.
  ['a line break or a NUL', ['"100.50\\n"', '"\\n100.50"', '"100.50\\u0000"', '"\\u0000"']],
  [
    'digits of another script',
    ['"\u0661\u0660\u0660"', '"\uff11\uff10\uff10"', '"\u0967\u0966\u0966"', '"100\u066b50"'],
  ],
  ['no value above 0', ['"0"', '"0.0"', '"0.00"', '0', '0.00', '-0', '-1', '-0.01']],
  ['16 digits in a text', ['"1234567890123456"', '"12345678901234.56"']],
  ['16 digits in a number', ['9007199254740993', '1234567890123456', '12345678901234.56']],
  ['400 digits', [`"${'9'.repeat(400)}"`, '9'.repeat(400)]],
  ['15,000 digits', [`"${'9'.repeat(15_000)}"`, '9'.repeat(15_000), `1e${'9'.repeat(15_000)}`]],
  ['an exponent, also of a good value', ['1e3', '1E3', '1e0', '1.5e1', '1e+2', '1e-2', '1e400']],
  ['more decimals than USD has', ['"0.001"', '"100.505"', '"100.500"', '0.001', '100.500']],
  ['half a character', ['"\\ud800"', '"100.50\\udfff"', '"\\u0000100.50"']],
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the text itself is the attack.
  ['an injection', ['"${7*7}"', '{"$gt":""}', '{"__proto__":{"length":6}}', '"1; SELECT pg_sleep(10)"']],
  ['SQL', [`"1'; DROP TABLE payments; --"`, `"100.50' OR '1'='1"`, '"100.50); DELETE FROM payments; --"']],
];

const REFUSED_CURRENCIES: readonly (readonly [why: string, currencies: Texts])[] = [
  ['another type', ['null', 'true', '840', '1', '[]', '["USD"]', '{}', '{"code":"USD"}', '{"$ne":null}']],
  ['not three letters', ['""', '" "', '"US"', '"USDX"', '"U.S"', '"$"', '"840"', '"dollar"', '"{{7*7}}"']],
  ['surrounded by something', ['" USD"', '"USD "', '"USD\\n"', '"USD\\u0000"']],
  ['15,000 letters', [`"${'U'.repeat(15_000)}"`]],
  ['not in ISO 4217, or no longer', ['"ZZZ"', '"BTC"', '"DEM"', '"AAA"']],
  ['in ISO 4217 without a minor unit', ['"XAU"', '"XAG"', '"XXX"', '"XTS"', '"XDR"', '"xau"']],
  // Long s and dotless i, which only upper-casing turns into ASCII; full width and Cyrillic look-alikes.
  ['letters beyond ASCII', ['"u\u017fd"', '"\u0131qd"', '"\uff35\uff33\uff24"', '"U\u0405D"']],
  ['half a character', ['"\\udc00"', '"US\\ud83d"']],
  ['names that every JavaScript object answers to', ['"__proto__"', '"constructor"', '"toString"', '"hasOwnProperty"']],
  ['SQL', [`"1'; DROP TABLE payments; --"`, `"100.50' OR '1'='1"`, '"100.50); DELETE FROM payments; --"']],
];

/**
 * Decision P4: a refusal names the member and costs nothing. `test/unit/money` has every form of an amount and every minor unit,
 * `test/unit/json-body` every duplicate.
 */
describeDeployments('the body of a payment', (deployment) => {
  const service = shareService(deployment);

  const refuse = (bodies: Texts, message?: RegExp): Promise<unknown> =>
    Promise.all(bodies.map((body) => expectRefused(service.url, body, 400, message && { message })));

  it.each(WRITTEN_OTHERWISE)('is accepted however its JSON is written: %j', async (body) => {
    await expectAccepted(service.url, body);
  });

  it.each(IGNORED_MEMBERS)('may have unknown members: %s', async (members) => {
    await expectAccepted(service.url, `{${members},"amount":"100.50","currency":"USD"}`);
    await expectAccepted(service.url, `{"amount":"100.50","currency":"USD",${members}}`);
  });

  it.each(REFUSED_MEMBERS)('is refused with %s', async (_why, message, contents) => {
    await refuse(
      contents.map((content) => `{${content}}`),
      message,
    );
  });

  it('is refused when it is no object, or one of 1,000 other members, or a list of 8,000 numbers', async () => {
    const members = Array.from({ length: 1_000 }, (_, index) => `"m${index}":0`);
    await refuse([...NOT_AN_OBJECT, `{${members}}`, `[${'0,'.repeat(8_000)}0]`]);
  });

  it.each(ACCEPTED)('may have an amount with %s in %s: %j', async (_what, currency, amounts) => {
    for (const amount of amounts) await expectAccepted(service.url, `{"amount":${amount},"currency":${currency}}`);
  });

  it.each(REFUSED_AMOUNTS)('is refused when its amount has %s', async (_why, amounts) => {
    await refuse(
      amounts.map((amount) => `{"amount":${amount},"currency":"USD"}`),
      /amount/,
    );
  });

  it.each(REFUSED_CURRENCIES)('is refused when its currency is %s', async (_why, currencies) => {
    await refuse(
      currencies.map((currency) => `{"amount":"5","currency":${currency}}`),
      /currency/,
    );
  });

  it('is refused again and again for one key, which stays unspent', async () => {
    const key = await generateKey(service.url);
    for (const amount of ['0', '-1', '1e3', 'x']) {
      expectBodyRefused(await pay(service.url, key, { amount, currency: 'USD' }), 400, /amount/);
    }
    await expectUnspent(service.url, key);
    expect((await pay(service.url, key)).status).toBe(200);
  });
});
