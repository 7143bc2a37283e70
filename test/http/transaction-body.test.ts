import { describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import {
  draft,
  givenTransaction,
  listTransactions,
  newAccount,
  postTransaction,
  readTransaction,
  STATUSES,
  type Transaction,
} from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

/** The number text that must come out, and the JSON texts that it may have come in as. */
const ACCEPTED_AMOUNTS: readonly [number: string, sent: readonly string[]][] = [
  ['100', ['100', '"100"', '"100.0000"']],
  ['100.5', ['100.5', '100.50', '"100.50"']],
  ['1', ['1', '1.00000']],
  ['0.0001', ['0.0001', '"0.0001"', '1e-4']],
  ['1.005', ['1.005']],
  ['99999999999.9999', ['"99999999999.9999"']],
  ['99999999999999.9', ['99999999999999.9']],
  ['99999999999999', ['99999999999999']],
  ['10000000', ['1.0E7']],
  ['1.25', ['125e-2']],
  ['90071992547409.9', ['"90071992547409.9"']],
];

const REFUSED_AMOUNTS: readonly [why: string, amounts: readonly string[]][] = [
  ['nothing', ['0', '-0', '0.0', '"0"', '"0.0000"']],
  ['a sign', ['-1', '-0.01', '"-1"', '"+1"']],
  ['an exponent in a string', ['"1e3"', '"1E2"', '"1.0E7"']],
  ['an exponent of three digits', ['1e100', '1e-100', '0.1e001']],
  ['an exponent that makes it too long', ['1e14', '1e-5', '1.5e-4', '9999999999999999e-2']],
  ['another notation', ['"0x10"', '"0b1"', '"1_000"', '"1,000"', '"1,5"', '"NaN"', '"Infinity"', '"one"', '"$1"']],
  ['white space', ['" 1"', '"1 "', '"1\\n"', '"1 000"', '" "', '"\\u00a01"']],
  ['another type', ['true', 'false', '[5]', '["5"]', '{"value":5}']],
  ['15 digits before the point', ['100000000000000', '"100000000000000"', '"999999999999999"']],
  ['5 digits after the point', ['0.00001', '"0.00001"', '"1.00000"']],
  ['16 digits in all', ['123456789012.3456', '"123456789012.3456"', '"12345678901234.50"', '9007199254740993']],
  ['digits without end', [`1${'0'.repeat(400)}`, `"0.${'1'.repeat(400)}"`]],
];

const ACCEPTED_ACCOUNTS = [
  ['one character', 'x'],
  ['64 characters that are two UTF-16 units each', '\u{1f600}'.repeat(64)],
  ['white space around it', '  padded  '],
  ['a composed letter', 'caf\u00e9'],
  ['a decomposed letter', 'cafe\u0301'],
  ['quotes, backslashes and markup', '"\\/<b>&\'%00'],
  ['a zero-width joiner and a byte order mark', '\ufeffa\u200db'],
  ['the name of a prototype', '__proto__'],
] as const;

const REFUSED_ACCOUNTS = [
  ['empty', '""'],
  ['65 characters', `"${'x'.repeat(65)}"`],
  ['65 characters that are two UTF-16 units each', `"${'\u{1f600}'.repeat(65)}"`],
  ['65 code points, though 64 letters are seen', `"${'x'.repeat(63)}e\u0301"`],
  ['a NUL', '"a\\u0000b"'],
  ['a line break', '"a\\nb"'],
  ['a delete character', '"a\u007fb"'],
  ['a lone high surrogate', '"a\\ud800"'],
  ['null', 'null'],
  ['an object', '{"id":"A"}'],
] as const;

describeDeployments('the body of a new transaction', (deployment) => {
  const shared = shareService(deployment);

  describe('the amount', () => {
    it.each(ACCEPTED_AMOUNTS)('comes out as the number %s when created, read and listed: %j', async (number, sent) => {
      const account = newAccount();
      for (const amount of sent) {
        const answer = await postTransaction(shared.url, bodyWith('amount', amount, account));
        expect(answer.status, answer.text).toBe(201);
        const read = await readTransaction(shared.url, answer.json<Transaction>().transactionId);
        expect([...numberTexts(answer.text), ...numberTexts(read.text)]).toEqual([number, number]);
      }
      const list = await listTransactions(shared.url, { from: account });
      expect(numberTexts(list.text)).toEqual(sent.map(() => number));
    });

    it.each(REFUSED_AMOUNTS)('is refused with %s', async (_why, amounts) => {
      for (const amount of amounts) {
        expectError(await postTransaction(shared.url, bodyWith('amount', amount)), 400, /amount/);
      }
    });
  });

  describe.each(['fromAccount', 'toAccount'])('%s', (member) => {
    it.each(ACCEPTED_ACCOUNTS)('may be %s, and is kept as it was sent', async (_what, account) => {
      const answer = await postTransaction(shared.url, draft({ [member]: account }));

      expect(answer.status, answer.text).toBe(201);
      const created = answer.json<Record<string, unknown>>();
      expect(created[member]).toBe(account);
      const read = await readTransaction(shared.url, created.transactionId as number);
      expect(read.json<Record<string, unknown>>()[member]).toBe(account);
    });

    it.each(REFUSED_ACCOUNTS)('is refused when it is %s', async (_what, account) => {
      expectError(await postTransaction(shared.url, bodyWith(member, account)), 400, new RegExp(member));
    });
  });

  describe('the two accounts', () => {
    it.each([
      ['alike', '{"fromAccount":"A","toAccount":"A","amount":1}'],
      ['alike once escapes are read', '{"fromAccount":"A","toAccount":"\\u0041","amount":1}'],
    ])('are refused when they are %s', async (_how, body) => {
      expectError(await postTransaction(shared.url, body), 400, /account/i);
    });

    it.each([
      ['case', 'alice', 'ALICE'],
      ['white space', 'alice', 'alice '],
      ['Unicode composition', 'caf\u00e9', 'cafe\u0301'],
    ])('may differ in %s only', async (_what, fromAccount, toAccount) => {
      const created = await givenTransaction(shared.url, { fromAccount, toAccount });
      expect(created).toMatchObject({ fromAccount, toAccount });
    });
  });

  describe('the status', () => {
    it('is PENDING when none is sent', async () => {
      expect((await givenTransaction(shared.url)).status).toBe('PENDING');
    });

    it.each(STATUSES)('may be %s from the start', async (status) => {
      expect((await givenTransaction(shared.url, { status })).status).toBe(status);
    });

    it.each(['DONE', 'pending', 'PENDING ', '', 'constructor'])('is refused when it is "%s"', async (status) => {
      const answer = await postTransaction(shared.url, draft({ status }));
      for (const known of STATUSES) expectError(answer, 400, new RegExp(`\\b${known}\\b`));
    });

    it.each(['5', 'true', '["PENDING"]', '{}'])('is refused when it is %s', async (status) => {
      expectError(await postTransaction(shared.url, bodyWith('status', status)), 400, /status/);
    });
  });

  describe('members', () => {
    it.each(['fromAccount', 'toAccount', 'amount'])('may not lack %s', async (member) => {
      expectError(await postTransaction(shared.url, draft({ [member]: undefined })), 400, new RegExp(member));
    });

    it('must be those of an object', async () => {
      for (const body of [`[${JSON.stringify(draft())}]`, 'null', '"A"', '1', 'true']) {
        expectError(await postTransaction(shared.url, body), 400);
      }
    });

    it.each([
      ['amount', '{"fromAccount":"A","toAccount":"B","amount":1,"amount":1}'],
      ['amount', '{"fromAccount":"A","toAccount":"B","amount":1,"\\u0061mount":2}'],
      ['fromAccount', '{"fromAccount":"A","fromAccount":"C","toAccount":"B","amount":1}'],
      ['toAccount', '{"fromAccount":"A","toAccount":"B","amount":1,"toAccount":"B"}'],
      ['status', '{"fromAccount":"A","toAccount":"B","amount":1,"status":"PENDING","status":"FAILED"}'],
    ])('of one name, here %s, may not come twice', async (member, body) => {
      expectError(await postTransaction(shared.url, body), 400, new RegExp(member));
    });

    it('that are unknown are ignored, also those that the service itself fills', async () => {
      const body =
        '{"transactionId":7,"createdAt":"1999","__proto__":{"status":"FAILED","polluted":1},"constructor":{"a":[1]},' +
        '"fromAccount":"A","note":{"amount":9,"amount":8},"toAccount":"B","amount":1}';
      const created = (await postTransaction(shared.url, body)).json<Transaction>();

      expect(Object.keys(created)).toEqual(Object.keys(await givenTransaction(shared.url)));
      expect(created).toMatchObject({ fromAccount: 'A', toAccount: 'B', amount: 1, status: 'PENDING' });
      expect(created.transactionId).not.toBe(7);
      expect(created.createdAt).not.toBe('1999');
    });

    it('are not taken from a prototype', async () => {
      const body = '{"__proto__":{"amount":5},"fromAccount":"A","toAccount":"B"}';
      expectError(await postTransaction(shared.url, body), 400, /amount/);
    });
  });
});

/** A good body in which one member has the given JSON text. */
function bodyWith(member: string, json: string, fromAccount = 'A'): string {
  const members = { fromAccount: `"${fromAccount}"`, toAccount: '"B"', amount: '1', [member]: json };
  return `{${Object.entries(members).map(([name, value]) => `"${name}":${value}`)}}`;
}

/** The amounts as text on the wire: parsing them would hide `100.50` and lost digits. */
function numberTexts(body: string): (string | undefined)[] {
  return [...body.matchAll(/"amount":([^,}]+)/g)].map(([, text]) => text);
}
