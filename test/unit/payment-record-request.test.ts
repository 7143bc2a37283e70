import { describe, expect, test } from 'vitest';
import { readDays } from '#idempay/http/payments/export-payments.js';
import { cursorFor, readSelection } from '#idempay/http/payments/list-payments.js';
import { readVerdict } from '#idempay/http/payments/resolve-payment.js';
import { readJsonBody } from '#idempay/http/requests/json-body.js';

const KEY = '0191b7a0-0000-7000-8000-000000000001';
const EMOJI = '\u{1f600}';

/** A 400 with such a message. */
const refusal = (message: string) =>
  expect.objectContaining({ name: 'PublicError', status: 400, message: expect.stringContaining(message) });

describe('the selection of a list', () => {
  test('is of all payments, 50 at a time, where nothing is asked for', () => {
    const everything = { state: undefined, claimedFrom: undefined, claimedTo: undefined, before: undefined, limit: 50 };
    expect(readSelection({})).toEqual(everything);
    expect(readSelection({ find: '', state: '', processor: '', from: '', to: '', limit: '', cursor: '' })).toEqual(
      everything,
    );
  });

  test.each([
    ['2028-02-29', '2028-02-29T00:00:00.000Z'],
    ['1969-12-31', '1969-12-31T00:00:00.000Z'],
    ['2026-11-20T13:00Z', '2026-11-20T13:00:00.000Z'],
    ['2026-11-20t13:00:59z', '2026-11-20T13:00:59.000Z'],
    ['2026-11-20T13:00:59.123456789Z', '2026-11-20T13:00:59.123Z'],
    ['2026-11-20T13:00:00+02:00', '2026-11-20T11:00:00.000Z'],
    ['2026-11-20T13:00:00 02:00', '2026-11-20T11:00:00.000Z'],
    ['2026-11-20T13:00:00-05:30', '2026-11-20T18:30:00.000Z'],
  ])('takes a day or a moment: %s', (text, moment) => {
    const { claimedFrom, claimedTo } = readSelection({ from: text, to: text });
    expect([claimedFrom, claimedTo]).toEqual([Date.parse(moment), Date.parse(moment)]);
  });

  test('takes a state in any case, a limit up to 500, and a cursor as a page gave it', () => {
    for (const state of ['PROCESSING', 'completed', 'Declined']) {
      expect(readSelection({ state }).state).toBe(state.toUpperCase());
    }
    for (const limit of [1, 500]) expect(readSelection({ limit: `${limit}` }).limit).toBe(limit);
    const id = 'TXN1795170621886123456789';
    expect(readSelection({ cursor: cursorFor(id) }).before).toBe(id);
  });

  test('takes the beginning of a key or of a transaction id, in any case, and a processor as it is', () => {
    for (const text of ['0191b7a', '0191B7A0-0', ' 0191b7a00000 ', KEY, KEY.replaceAll('-', '')]) {
      const keyDigits = text.trim().toLowerCase().replaceAll('-', '');
      expect(readSelection({ find: text }).find).toEqual({ keyDigits });
    }
    for (const text of ['TXN', 'txn1', ' TXN1795170621886123456789 ']) {
      expect(readSelection({ find: text }).find).toEqual({ transactionId: text.trim().toUpperCase() });
    }
    expect(readSelection({ processor: 'Bank of X/1' }).processor).toBe('Bank of X/1');
  });

  /**
   * The days that no month has among the moments: Bug: a moment on one was taken for a moment of the next month. Cause:
   * `Date.parse` does so, and only days without a time were checked. Fix: the day of a moment is checked too.
   */
  const NO_MOMENTS =
    `yesterday 20261120 2026-11-20T13:00:00 2026-11-20T13Z 2026-11-20T13:00:00+0200 2026-11-20T13:00:00+24:00
    2026-11-20T25:00:00Z 2026-11-20T13:60:00Z 2026-11-20T13:00:00.Z 2026-13-01 2026-00-01 2026-11-00 2026-11-32 2027-02-29
    2026-02-30T00:00:00Z 2026-04-31T12:00:00+02:00 +002026-11-20 1795170621886`.split(/\s+/);
  const OTHER_MOMENTS = ['2026-11-20 ', '2026-11-20 13:00:00Z', 'Fri, 20 Nov 2026 13:00:00 GMT'];
  test.each<[name: string, texts: readonly string[]]>([
    ['state', ['PENDING', 'COMPLETED ', 'COMPLETED,DECLINED', '*', 'toString']],
    ['limit', ['0', '501', '-1', '+1', '1.5', '1e2', '0x10', ' 5', '05', 'ten', '9'.repeat(30), '\u0665']],
    ['from', [...NO_MOMENTS, ...OTHER_MOMENTS]],
    ['to', ['yesterday']],
    [
      'find',
      ['order-17', ' ', '-', 'TX', 'TXN-1', 'TXN1a', `TXN${'1'.repeat(41)}`, `${KEY}0`, '%', '\u0661', "1' OR 1"],
    ],
    // Bug: PostgreSQL refused the statement, and a client was told 503, as if the store were down. Cause: its text cannot hold U+0000.
    ['processor', ['\u0000', 'simulated\n']],
    ['content', ['', '\u0000', 'a\u0000', '\ud800', 'x'.repeat(501), 'x'.repeat(3_000)]],
    // Bug: a page that had lost the number of its order got the payments of everybody. Cause: an empty filter counted as absent.
    ['reference', ['', ' ', 'order 17', 'order+17']],
    ['cursor', ['1', `${KEY}0`, KEY.replaceAll('-', ''), '%', ' ']],
  ])('is refused for another %s', (name, texts) => {
    for (const text of texts) expect(() => readSelection({ [name]: text }), text).toThrow(refusal(`'${name}' must `));
  });
});

describe('the content that a list is searched for', () => {
  test('is taken as it is, from a moment on, which lies before the end', () => {
    const from = '2026-11-01';
    for (const content of ['x', ' ', '%', EMOJI.repeat(500), 'a\nb', 'Ann@Shop.example']) {
      expect(readSelection({ content, from })).toMatchObject({ content, claimedFrom: Date.parse(from) });
    }
    for (const range of [{}, { from: '' }, { to: from }, { from, to: from }, { from, to: '2026-10-31' }]) {
      expect(() => readSelection({ content: 'x', ...range })).toThrow(refusal("'content' is looked for from a day on"));
    }
  });
});

test('the content of payments is searched by operators only, and every other list is that of its client', () => {
  const from = '2026-11-01';
  for (const content of ['x', '']) {
    expect(() => readSelection({ content, from }, 'key:shop')).toThrow(
      expect.objectContaining({ name: 'PublicError', status: 403 }),
    );
  }
  expect(readSelection({ from }, 'key:shop')).toMatchObject({ client: 'key:shop', content: undefined });
});

describe('the day of an export', () => {
  test.each(['2026-11-20', '2028-02-29', '1970-01-01'])('is that day in UTC: %s', (text) => {
    const from = Date.parse(`${text}T00:00:00Z`);
    const day = { name: text, from, to: from + 86_400_000 };
    for (const lastDay of [undefined, '', text]) expect(readDays(text, lastDay)).toEqual(day);
  });

  const NO_DAYS =
    `today 2026-11 2026-11-20T00:00:00Z 2026-1-2 20261120 2027-02-29 2026-11-31 2026-13-01 2026-00-10 2026-11-00
    12026-11-20 \u0662\u0660\u0662\u0666-11-20`.split(/\s+/);
  test.each([undefined, '', '2026-11-20 ', ' 2026-11-20', ...NO_DAYS])('is not %j', (text) => {
    expect(() => readDays(text, undefined)).toThrow(refusal("'day' must be a day in UTC"));
  });

  test.each([
    ['2026-10-01', '2026-10-31', 31],
    ['2028-01-01', '2028-12-31', 366],
    ['2026-03-28', '2026-03-30', 3],
  ])('and those up to the last one, which is included: %s to %s', (day, lastDay, days) => {
    const from = Date.parse(`${day}T00:00:00Z`);
    const name = `${day}-to-${lastDay}`;
    expect(readDays(day, lastDay)).toEqual({ name, from, to: from + days * 86_400_000 });
  });

  test.each(['2026-11-19', '2026-11-31', '2027-11-21', '2026-11', 'x', '2026-11-21 '])(
    'does not go from 2026-11-20 to %j',
    (lastDay) => {
      expect(() => readDays('2026-11-20', lastDay)).toThrow(refusal("'lastDay' must be a day in UTC"));
    },
  );
});

describe('the verdict of an operator', () => {
  const verdictIn = (text: string) => readVerdict(readJsonBody(Buffer.from(text)));
  const verdict = (members: object) => verdictIn(JSON.stringify({ outcome: 'declined', reason: 'seen', ...members }));

  test('takes an outcome in any case, and does not read other members', () => {
    expect(verdict({ outcome: 'Completed', by: { name: 'A' } })).toEqual({ state: 'COMPLETED', reason: 'seen' });
    expect(verdict({ outcome: 'DECLINED' })).toEqual({ state: 'DECLINED', reason: 'seen' });
  });

  test.each([
    [` caf\u00e9 ${EMOJI} "quoted"\n`, `caf\u00e9 ${EMOJI} "quoted"`],
    [` ${EMOJI.repeat(500)} `, EMOJI.repeat(500)],
  ])('keeps its reason, trimmed: %j', (reason, kept) => {
    expect(verdict({ reason }).reason).toBe(kept);
  });

  const CONTROLS = ['two\nlines', 'a\u0000b', 'a\u007fb', 'a\u0085b', '\n\t\r', '\u00a0\ufeff'];
  test.each<[name: string, values: readonly unknown[]]>([
    ['outcome', [undefined, null, 1, [], {}, '', 'done', 'processing', 'completed ', 'COMPLETED,DECLINED']],
    ['reason', [undefined, null, 1, ['seen'], {}, '', '   ', 'x'.repeat(501), EMOJI.repeat(501), ...CONTROLS]],
  ])('is refused without its %s', (name, values) => {
    for (const value of values) expect(() => verdict({ [name]: value })).toThrow(refusal(`'${name}' must be `));
  });

  test.each([
    ["'reason'", '{"outcome":"completed","reason":"half a character: \\ud800"}'],
    ["'reason'", '{"outcome":"completed","reason":"\\udc00\\ud800"}'],
    ["'by'", '{"outcome":"completed","reason":"seen","by":"x","by":"y"}'],
    ["'outcome'", '{"outcome":"completed","reason":"seen","outcome":"completed"}'],
    ['JSON object', '"completed"'],
  ])('is refused with %s in the message: %s', (message, text) => {
    expect(() => verdictIn(text)).toThrow(refusal(message));
  });
});
