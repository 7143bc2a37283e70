import { it } from 'vitest';
import { expectAccepted, expectRefused } from '../../testkit/client/payment-answers.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

/** JSON text, so that number text reaches the service as it stands here. */
const ACCEPTED: [amount: string, currency: string][] = [
  ['"100.50"', '"USD"'],
  ['"100"', '"USD"'],
  ['"100.5"', '"USD"'],
  ['"1.00"', '"USD"'],
  ['"0.01"', '"USD"'],
  ['"0.10"', '"USD"'],
  ['"10"', '"USD"'],
  ['"\\u0031\\u002e5"', '"\\u0055SD"'],
  // 15 digits in all, before and after the point.
  ['"123456789012345"', '"USD"'],
  ['"1234567890123.45"', '"USD"'],
  ['"999999999999999"', '"JPY"'],
  ['"999999999999.999"', '"KWD"'],
  ['"99999999999.9999"', '"CLF"'],
  // JSON numbers, judged by their text.
  ['100.50', '"USD"'],
  ['100', '"USD"'],
  ['0.01', '"USD"'],
  ['123456789012345', '"USD"'],
  ['1234567890123.45', '"USD"'],
  // Minor units of ISO 4217, among them those where Intl disagrees (IQD, AFN, ALL, LBP) and the odd ones (MGA, MRU).
  ['"5"', '"JPY"'],
  ['"5"', '"KRW"'],
  ['"5"', '"ISK"'],
  ['"5"', '"XOF"'],
  ['"0.01"', '"EUR"'],
  ['"0.01"', '"AFN"'],
  ['"0.01"', '"ALL"'],
  ['"0.01"', '"LBP"'],
  ['"0.01"', '"HUF"'],
  ['"0.01"', '"MGA"'],
  ['"0.01"', '"MRU"'],
  ['"0.001"', '"IQD"'],
  ['"0.001"', '"KWD"'],
  ['"0.001"', '"BHD"'],
  ['"0.0001"', '"CLF"'],
  ['"0.0001"', '"UYW"'],
  // Any case.
  ['"100.50"', '"usd"'],
  ['"100.50"', '"uSd"'],
  ['"0.001"', '"kwd"'],
];

const REJECTED_AMOUNTS: string[] = [
  // Wrong types, among them those that JavaScript would turn into a number.
  ...['true', 'false', 'null', '[]', '[5]', '["100.50"]', '{}', '{"value":"5"}', '{"toString":"5"}'],
  // No plain decimal.
  ...[
    '""',
    '" "',
    '" 1"',
    '"1 "',
    '"1 000"',
    '"1_000"',
    '"1,5"',
    '"1,000.00"',
    '"+1"',
    '"-1"',
    '"-0"',
    '"$5"',
    '"5 USD"',
  ],
  ...[
    '"00.5"',
    '"01"',
    '"00"',
    '".5"',
    '"5."',
    '"."',
    '"1.2.3"',
    '"1e3"',
    '"1E3"',
    '"1e-1"',
    '"0x10"',
    '"0b1"',
    '"0o7"',
  ],
  ...['"1n"', '"NaN"', '"Infinity"', '"-Infinity"', '"null"', '"true"', '"abc"', '"1/2"', '"1%"'],
  // What a pattern without anchors, or with the wrong ones, lets through.
  ...[
    '"100.50\\n"',
    '"\\n100.50"',
    '"100.50\\u0000"',
    '"\\u0000"',
    '"\\u00a0100.50"',
    '"\\ufeff100.50"',
    '"100.50\\u200b"',
  ],
  // Digits that are digits to Unicode only: Arabic-Indic, full-width, Devanagari.
  ...['"\u0661\u0660\u0660"', '"\uff11\uff10\uff10"', '"\u0967\u0966\u0966"', '"100\u066b50"'],
  // Not more than 0.
  ...['"0"', '"0.0"', '"0.00"', '0', '0.00', '-0', '-1', '-0.01'],
  // More than 15 digits.
  ...['"1234567890123456"', '"12345678901234.56"', '9007199254740993', '1234567890123456', '12345678901234.56'],
  `"${'9'.repeat(400)}"`,
  '9'.repeat(400),
  // Exponents, also where the value would be a good one.
  ...['1e3', '1E3', '1e0', '1.5e1', '1e+2', '1e-2', '1e400'],
  // More decimals than USD has, also where the rest are zeros.
  ...['"0.001"', '"100.505"', '"100.500"', '0.001', '100.500'],
];

const REJECTED_DECIMALS: [amount: string, currency: string][] = [
  ['"1.5"', 'JPY'],
  ['"1.0"', 'JPY'],
  ['1.0', 'JPY'],
  ['"0.1"', 'XAF'],
  ['"0.1"', 'ISK'],
  ['"0.001"', 'EUR'],
  ['"0.001"', 'HUF'],
  ['"0.001"', 'AFN'],
  ['"0.001"', 'MGA'],
  ['"0.0001"', 'IQD'],
  ['"0.0001"', 'KWD'],
  ['"0.00001"', 'CLF'],
  ['"0.00001"', 'UYW'],
];

const REJECTED_CURRENCIES: string[] = [
  ...['null', 'true', '840', '1', '[]', '["USD"]', '{}', '{"code":"USD"}'],
  ...[
    '""',
    '" "',
    '" USD"',
    '"USD "',
    '"US"',
    '"USDX"',
    '"USD\\n"',
    '"USD\\u0000"',
    '"U.S"',
    '"$"',
    '"840"',
    '"dollar"',
  ],
  // Not in ISO 4217, or no longer.
  ...['"ZZZ"', '"BTC"', '"DEM"', '"AAA"'],
  // In ISO 4217 without a minor unit.
  ...['"XAU"', '"XAG"', '"XXX"', '"XTS"', '"XDR"', '"xau"'],
  // Letters that only upper-casing turns into ASCII (long s, dotless i), and look-alikes (full width, Cyrillic).
  ...['"u\u017fd"', '"\u0131qd"', '"\uff35\uff33\uff24"', '"U\u0405D"'],
  // Names that every JavaScript object answers to.
  ...['"__proto__"', '"constructor"', '"toString"', '"hasOwnProperty"'],
];

/** Decision P4: the values of `amount` and `currency`. A refusal names the member and costs nothing. */
describeDeployments('amount and currency of a payment', (deployment) => {
  const service = shareService(deployment);

  it.each(ACCEPTED)('accepts the amount %s of the currency %s', async (amount, currency) => {
    await expectAccepted(service.url, `{"amount":${amount},"currency":${currency}}`);
  });

  it.each(REJECTED_AMOUNTS)('refuses the amount %s of USD', async (amount) => {
    await expectRefused(service.url, `{"amount":${amount},"currency":"USD"}`, 400, { message: /amount/ });
  });

  it.each(REJECTED_DECIMALS)('refuses the amount %s, which has more decimals than %s', async (amount, currency) => {
    await expectRefused(service.url, `{"amount":${amount},"currency":"${currency}"}`, 400, { message: /amount/ });
  });

  it.each(REJECTED_CURRENCIES)('refuses the currency %s', async (currency) => {
    await expectRefused(service.url, `{"amount":"5","currency":${currency}}`, 400, { message: /currency/ });
  });

  it.each(["1'; DROP TABLE payments; --", "100.50' OR '1'='1", '100.50); DELETE FROM payments; --'])(
    'takes the SQL %s for no amount and no currency',
    async (sql) => {
      const asAmount = JSON.stringify({ amount: sql, currency: 'USD' });
      await expectRefused(service.url, asAmount, 400, { message: /amount/ });
      const asCurrency = JSON.stringify({ amount: '100.50', currency: sql });
      await expectRefused(service.url, asCurrency, 400, { message: /currency/ });
    },
  );
});
