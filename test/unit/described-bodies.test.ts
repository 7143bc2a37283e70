import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { PublicError } from '#idempay/http/errors/public-error.js';
import { SCHEMAS } from '#idempay/http/openapi/schemas.js';
import { readPaymentRequest } from '#idempay/http/payments/pay.js';
import { readVerdict } from '#idempay/http/payments/resolve-payment.js';
import { type JsonBody, readJsonBody } from '#idempay/http/requests/json-body.js';
import { readNewStatus } from '#idempay/http/transactions/change-status.js';
import { BATCH_ROWS, readNewTransactions } from '#idempay/http/transactions/create-transactions.js';
import { readNewTransaction } from '#idempay/http/transactions/new-transaction.js';
import { MINOR_UNITS } from '#idempay/payments/values/currencies.js';
import { TRANSACTION_STATUSES } from '#idempay/transactions/transaction.js';

/**
 * Bodies are judged by hand, and described by a schema: both must say the same of every body. If a schema cannot say a rule, the
 * description names it, and `reconcile` here says exactly what it is. Each of these is counted, so that none is said for nothing.
 */
/** How many bodies of each kind are tried. `npm run test:long -- fuzz` tries 10,000. */
const BODIES = Number(process.env.DESCRIBED_BODIES ?? 500);
const SEED = 20_261_122;

type Members = Record<string, unknown>;
type Judge = (body: JsonBody) => unknown;
/** The question for the schema instead: the body as the rule reads it, or `refused` if the rule alone decides. */
type Reconcile = (value: Members, text: string, note: (rule: string) => void) => unknown | 'refused';

const ajv = new Ajv2020({ strict: false, validateFormats: false });
ajv.addSchema({ $id: 'all', components: { schemas: SCHEMAS } });

function accepts(judge: Judge, text: string): boolean {
  try {
    const result = judge(readJsonBody(Buffer.from(text), BATCH_ROWS));
    return !(typeof result === 'object' && result !== null && 'problem' in result);
  } catch (error) {
    if (error instanceof PublicError && error.status === 400) return false;
    throw error;
  }
}

function expectAgreement(
  name: keyof typeof SCHEMAS,
  judge: Judge,
  bodies: fc.Arbitrary<string>,
  rules: readonly string[],
  reconcile: Reconcile,
): void {
  const meets = ajv.compile({ $ref: `all#/components/schemas/${name}` });
  const counts = new Map<string, number>([...rules, 'accepted', 'refused'].map((rule) => [rule, 0]));
  const note = (rule: string) => counts.set(rule, (counts.get(rule) ?? 0) + 1);
  const agree = (text: string) => {
    const value: unknown = JSON.parse(text);
    const accepted = accepts(judge, text);
    note(accepted ? 'accepted' : 'refused');
    const members = isObject(value) ? value : undefined;
    if (members && hasRepeatedMember(text)) {
      note('repeated member');
      expect(accepted, text).toBe(false);
      return;
    }
    const asked = members ? reconcile(members, text, note) : value;
    expect(asked !== 'refused' && meets(asked), text).toBe(accepted);
  };
  fc.assert(fc.property(bodies, agree), { numRuns: BODIES, seed: SEED });
  // A generator of one kind only would check nothing.
  for (const [rule, count] of counts) expect(count, rule).toBeGreaterThan(BODIES / 200);
  expect([...counts.keys()].sort()).toEqual([...rules, 'accepted', 'refused'].sort());
}

function isObject(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function hasRepeatedMember(text: string): boolean {
  const body = readJsonBody(Buffer.from(text));
  return body.kind === 'object' && body.duplicate !== undefined;
}

/** A JSON object of members with these texts as values; now and then one is missing, one too many, or stands there twice. */
function objectOf(members: Readonly<Record<string, fc.Arbitrary<string>>>): fc.Arbitrary<string> {
  const pairs = Object.entries(members).map(([name, value]) => fc.tuple(fc.constant(name), value));
  const rarely = fc.integer({ min: 0, max: 99 });
  const whole = fc.tuple(fc.tuple(...pairs), rarely, fc.nat(), value).map(([all, roll, at, other]) => {
    const list = [...all];
    if (roll < 4) list.splice(at % list.length, 1);
    else if (roll < 8) list.push(list[at % list.length] as [string, string]);
    else if (roll < 16) list.push(['note', other]);
    return `{${list.map(([name, text]) => `${JSON.stringify(name)}: ${text}`).join(',')}}`;
  });
  return fc.oneof({ weight: 30, arbitrary: whole }, { weight: 1, arbitrary: value });
}

const value = fc.jsonValue({ maxDepth: 2 }).map((any) => JSON.stringify(any));
const quotedText = (texts: fc.Arbitrary<string>) => texts.map((text) => JSON.stringify(text));
const DIGIT = fc.constantFrom(...'0123456789');
const digits = (most: number) => fc.string({ unit: DIGIT, minLength: 1, maxLength: most });
const decimal = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.tuple(fc.integer({ min: 0, max: 99_999 }), digits(2)).map(([whole, part]) => `${whole}.${part}`),
  },
  { weight: 2, arbitrary: fc.integer({ min: 0, max: 999_999 }).map(String) },
  {
    weight: 3,
    arbitrary: fc.tuple(digits(17), digits(6)).map(([whole, part]) => `${whole.replace(/^0+(?=.)/, '')}.${part}`),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom('0', '0.0', '0.00', '0.0001', '99999999999999', '999999999999999', '1000000000000000'),
  },
);
const brokenDecimal = fc.oneof(
  decimal.map((text) => `-${text}`),
  decimal.map((text) => `0${text}`),
  decimal.map((text) => `${text}e1`),
  decimal.map((text) => ` ${text}`),
  fc.constantFrom('', '.5', '5.', '1,5', '0x10', '١', '１２', 'NaN', '1\n'),
  fc.string(),
);
const jsonNumber = fc.oneof(
  { weight: 4, arbitrary: decimal },
  { weight: 1, arbitrary: decimal.map((text) => `-${text}`) },
  {
    weight: 3,
    arbitrary: fc
      .tuple(decimal, fc.constantFrom('e', 'E', 'e+', 'E-', 'e-'), fc.integer({ min: 0, max: 18 }))
      .map(([text, e, exponent]) => `${text}${e}${exponent}`),
  },
  { weight: 1, arbitrary: fc.constantFrom('1e100', '1e-100', '1E07', '1e007', '1.50', '1.50000', '0e5') },
);
const amount = fc.oneof(
  { weight: 6, arbitrary: quotedText(decimal) },
  { weight: 2, arbitrary: quotedText(brokenDecimal) },
  { weight: 3, arbitrary: jsonNumber },
  { weight: 1, arbitrary: value },
);
const numberText = (text: string) => /"amount": (-?[0-9][^,}]*)/.exec(text)?.[1];

describe('the description of a body says what its judge says', () => {
  test('of a payment', () => {
    const code = fc.constantFrom(...MINOR_UNITS.keys());
    const currency = fc.oneof(
      { weight: 8, arbitrary: fc.constantFrom('"USD"', '"JPY"', '"BHD"', '"CLF"', '"UYW"') },
      { weight: 3, arbitrary: quotedText(code) },
      { weight: 1, arbitrary: quotedText(code.map((text) => text.toLowerCase())) },
      {
        weight: 1,
        arbitrary: quotedText(
          fc.oneof(
            fc.constantFrom('XAU', 'XXX', 'uſd', 'US', 'USDT', ' USD'),
            fc.string({ unit: fc.constantFrom(...'ABCDEFGHIJKLMNOPQRSTUVWXYZ'), minLength: 3, maxLength: 3 }),
          ),
        ),
      },
      { weight: 1, arbitrary: value },
    );
    const path = fc.string({ unit: fc.constantFrom(...'ab/?&=%#:@.[]-_~17'), maxLength: 12 });
    const returnUrl = fc.oneof(
      {
        weight: 8,
        arbitrary: quotedText(path.map((rest) => `https://shop.example/${rest}`)),
      },
      { weight: 2, arbitrary: quotedText(path.map((rest) => `HTTP://127.0.0.1:3000/${rest}`)) },
      { weight: 2, arbitrary: fc.constantFrom(979, 980).map((n) => `"https://shop.example/${'a'.repeat(n)}"`) },
      {
        weight: 3,
        arbitrary: quotedText(
          fc.constantFrom(
            '',
            'https://',
            'https:shop.example',
            'https://shop.example\\orders',
            'https://shop.example/a b',
            'https://shop.example/ä',
            'https://shop.example/\u007f',
            'ftp://shop.example/',
            ' https://shop.example/',
            'https://shop.example/\n',
          ),
        ),
      },
      {
        weight: 2,
        arbitrary: quotedText(
          fc.constantFrom('http://shop.example/', 'https://shop.example:99999/', 'https://[::1/', 'https://a%00b/'),
        ),
      },
      { weight: 1, arbitrary: value },
    );
    const bodies = fc.oneof(
      { weight: 3, arbitrary: objectOf({ amount, currency }) },
      { weight: 2, arbitrary: objectOf({ amount, currency, returnUrl }) },
    );
    const rules = ['repeated member', 'currency in another case', 'text of a number', 'host of a return address'];
    expectAgreement('PaymentRequest', readPaymentRequest, bodies, rules, (members, text, note) => {
      const asked = { ...members };
      if (isOnlyDescribed(asked.returnUrl)) {
        note('host of a return address');
        return 'refused';
      }
      if (typeof asked.currency === 'string' && /^[A-Za-z]{3}$/.test(asked.currency)) {
        if (/[a-z]/.test(asked.currency)) note('currency in another case');
        asked.currency = asked.currency.toUpperCase();
      }
      if (typeof asked.amount === 'number') {
        note('text of a number');
        asked.amount = numberText(text);
      }
      return asked;
    });
  });

  test('of a new transaction', () => {
    const account = fc.oneof(
      {
        weight: 12,
        arbitrary: quotedText(fc.string({ unit: fc.constantFrom(...'abcdefgh'), minLength: 1, maxLength: 8 })),
      },
      { weight: 4, arbitrary: fc.constantFrom('"alice"', '"bob"') },
      { weight: 2, arbitrary: quotedText(fc.string({ unit: 'binary', maxLength: 80 })) },
      {
        weight: 1,
        arbitrary: quotedText(
          fc.constantFrom(
            '',
            ' ',
            '\n',
            'a\u0000',
            '\u0085',
            'a'.repeat(64),
            'a'.repeat(65),
            '😀'.repeat(64),
            '😀'.repeat(65),
            '\ud800',
          ),
        ),
      },
      { weight: 1, arbitrary: value },
    );
    const status = fc.oneof(
      { weight: 8, arbitrary: quotedText(fc.constantFrom(...TRANSACTION_STATUSES)) },
      { weight: 1, arbitrary: quotedText(fc.constantFrom('pending', 'DONE', '')) },
      { weight: 1, arbitrary: value },
    );
    const rules = ['repeated member', 'accounts that are the same', 'text of a number'];
    const bodies = fc.oneof(
      objectOf({ fromAccount: account, toAccount: account, amount }),
      objectOf({ fromAccount: account, toAccount: account, amount, status }),
    );
    expectAgreement('NewTransaction', readNewTransaction, bodies, rules, (members, text, note) => {
      const { fromAccount, toAccount } = members;
      if (typeof fromAccount === 'string' && fromAccount === toAccount) {
        note('accounts that are the same');
        return 'refused';
      }
      if (typeof members.amount !== 'number') return members;
      note('text of a number');
      return { ...members, amount: exactValueOf(numberText(text) ?? '') };
    });
  });

  test('of a batch of transactions, whose rows are judged as single ones are', () => {
    const text = quotedText(fc.oneof({ weight: 20, arbitrary: decimal }, { weight: 1, arbitrary: brokenDecimal }));
    const from = fc.oneof(
      { weight: 20, arbitrary: fc.constantFrom('"alice"', '"carol"') },
      { weight: 1, arbitrary: fc.constant('"bob"') },
      { weight: 1, arbitrary: value },
    );
    const row = objectOf({ fromAccount: from, toAccount: fc.constant('"bob"'), amount: text });
    const isWhole = (rowText: string) => !isObject(JSON.parse(rowText)) || !hasRepeatedMember(rowText);
    const rows = fc.array(row.filter(isWhole), { maxLength: 4 }).map((all) => `[${all.join()}]`);
    const transactions = fc.oneof({ weight: 20, arbitrary: rows }, { weight: 1, arbitrary: value });
    const rules = ['repeated member', 'accounts that are the same'];
    expectAgreement(
      'NewTransactions',
      readNewTransactions,
      objectOf({ transactions }),
      rules,
      (members, _text, note) => {
        const all: unknown[] = Array.isArray(members.transactions) ? members.transactions : [];
        const isSame = (each: unknown) =>
          isObject(each) && each.fromAccount === each.toAccount && each.toAccount === 'bob';
        if (!all.some(isSame)) return members;
        note('accounts that are the same');
        return 'refused';
      },
    );
  });

  test('of a change of status', () => {
    const status = fc.oneof(
      { weight: 4, arbitrary: quotedText(fc.constantFrom(...TRANSACTION_STATUSES)) },
      { weight: 1, arbitrary: quotedText(fc.oneof(fc.constantFrom('pending', 'DONE', ''), fc.string())) },
      { weight: 1, arbitrary: value },
    );
    const judge = (body: JsonBody) => readNewStatus(body, undefined);
    expectAgreement('StatusChange', judge, objectOf({ status }), ['repeated member'], (members) => members);
  });

  test('of a resolution', () => {
    const outcome = fc.oneof(
      { weight: 6, arbitrary: fc.constantFrom('"completed"', '"declined"') },
      { weight: 1, arbitrary: fc.constantFrom('"COMPLETED"', '"Declined"', '"cOmPlEtEd"') },
      { weight: 1, arbitrary: fc.constantFrom('"paid"', '""', '" completed"', '"declıned"', '"processing"') },
      { weight: 1, arbitrary: value },
    );
    const reason = fc.oneof(
      { weight: 4, arbitrary: quotedText(fc.string({ minLength: 1, maxLength: 40 })) },
      { weight: 2, arbitrary: quotedText(fc.string({ unit: 'binary', maxLength: 40 })) },
      {
        weight: 2,
        arbitrary: quotedText(
          fc.constantFrom(
            '',
            ' ',
            '\n',
            ' seen\n',
            '\tseen',
            'se\nen',
            '\ufeffseen',
            'a',
            '\ud800',
            'a\u0085',
            '😀'.repeat(500),
            '😀'.repeat(501),
            ` ${'a'.repeat(500)} `,
            'a'.repeat(501),
          ),
        ),
      },
      { weight: 1, arbitrary: value },
    );
    const rules = ['repeated member', 'outcome in another case'];
    expectAgreement('Resolution', readVerdict, objectOf({ outcome, reason }), rules, (members, _text, note) => {
      const { outcome: said } = members;
      if (typeof said !== 'string' || !/[A-Z]/.test(said) || !/^[A-Za-z]+$/.test(said)) return members;
      note('outcome in another case');
      return { ...members, outcome: said.toLowerCase() };
    });
  });
});

/** True for a return address without a valid host, or one over http whose host is not a loopback name: the description says so in words. */
function isOnlyDescribed(returnUrl: unknown): boolean {
  if (typeof returnUrl !== 'string' || !/^https?:\/\//i.test(returnUrl)) return false;
  if (!URL.canParse(returnUrl)) return true;
  const { protocol, hostname } = new URL(returnUrl);
  return protocol === 'http:' && hostname !== '127.0.0.1';
}

/** The exact value of a JSON number as a plain decimal, by moving its point; what has more than two digits of exponent as it is. */
function exactValueOf(number: string): string {
  const [, sign = '', whole = '', part = '', , exponentSign = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?([eE]([+-]?)(\d{1,2}))?$/.exec(number) ?? [];
  if (whole === '') return number;
  const shift = Number(`${exponentSign}${exponent}`);
  const all = `${'0'.repeat(100)}${whole}${part}${'0'.repeat(100)}`;
  const point = 100 + whole.length + shift;
  const before = all.slice(0, point).replace(/^0+(?=\d)/, '');
  const after = all.slice(point).replace(/0+$/, '');
  return `${sign}${after === '' ? before : `${before}.${after}`}`;
}
