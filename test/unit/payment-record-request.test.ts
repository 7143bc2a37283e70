import { describe, expect, it } from 'vitest';
import { readJsonBody } from '#idempay/http/json-body.js';
import { type ListQuery, readDay, readSelection, readVerdict } from '#idempay/http/payment-record-request.js';
import { PublicError } from '#idempay/http/public-errors.js';

const KEY = '0191b7a0-0000-7000-8000-000000000001';
const DAY_MS = 86_400_000;
const ARABIC_FIVE = '\u0665';
const EMOJI = '\u{1f600}';

describe('the selection of a list', () => {
  it('is of all payments, 50 at a time, where nothing is asked for', () => {
    const everything = { state: undefined, createdFrom: undefined, createdTo: undefined, before: undefined, limit: 50 };
    expect(readSelection({})).toEqual(everything);
    expect(readSelection({ state: '', from: '', to: '', limit: '', cursor: '' })).toEqual(everything);
  });

  it.each(['PROCESSING', 'completed', 'Declined'])('takes the state in any case: %s', (state) => {
    expect(readSelection({ state }).state).toBe(state.toUpperCase());
  });

  it.each([
    ['2026-11-20', '2026-11-20T00:00:00.000Z'],
    ['2028-02-29', '2028-02-29T00:00:00.000Z'],
    ['2026-11-20T13:00Z', '2026-11-20T13:00:00.000Z'],
    ['2026-11-20T13:00:59Z', '2026-11-20T13:00:59.000Z'],
    ['2026-11-20T13:00:59.5Z', '2026-11-20T13:00:59.500Z'],
    ['2026-11-20T13:00:59.123456789Z', '2026-11-20T13:00:59.123Z'],
    ['2026-11-20t13:00:00z', '2026-11-20T13:00:00.000Z'],
    ['2026-11-20T13:00:00+02:00', '2026-11-20T11:00:00.000Z'],
    ['2026-11-20T13:00:00 02:00', '2026-11-20T11:00:00.000Z'],
    ['2026-11-20T13:00:00-05:30', '2026-11-20T18:30:00.000Z'],
    ['1969-12-31', '1969-12-31T00:00:00.000Z'],
  ])('takes a day or a moment: %s', (text, moment) => {
    const { createdFrom, createdTo } = readSelection({ from: text, to: text });
    expect([createdFrom, createdTo]).toEqual([Date.parse(moment), Date.parse(moment)]);
  });

  it.each(['1', '50', '500'])('takes a limit of %s', (limit) => {
    expect(readSelection({ limit }).limit).toBe(Number(limit));
  });

  it('takes a key as the cursor', () => {
    expect(readSelection({ cursor: KEY }).before).toBe(KEY);
    expect(readSelection({ cursor: KEY.toUpperCase() }).before).toBe(KEY);
  });

  /**
   * The days that no month has among the moments: Bug: a moment on one was taken for a moment of the next month. Cause:
   * `Date.parse` does so, and only days without a time were checked. Fix: the day of a moment is checked too.
   */
  const NO_MOMENTS = `
    yesterday 20261120 2026-11-20T13:00:00 2026-11-20T13Z 2026-11-20T13:00:00+0200 2026-11-20T13:00:00+24:00
    2026-11-20T25:00:00Z 2026-11-20T13:60:00Z 2026-11-20T13:00:00.Z 2026-13-01 2026-00-01 2026-11-00 2026-11-32 2026-02-30
    2027-02-29 2026-02-30T00:00:00Z 2026-04-31T12:00:00+02:00 +002026-11-20 1795170621886`;
  const moments = [
    ...NO_MOMENTS.trim().split(/\s+/),
    '2026-11-20 ',
    '2026-11-20 13:00:00Z',
    'Fri, 20 Nov 2026 13:00:00 GMT',
  ];
  const limits = ['0', '501', '-1', '+1', '1.5', '1e2', '0x10', ' 5', '05', 'ten', '9'.repeat(30), ARABIC_FIVE];
  const cursors = ['1', 'next', `${KEY}0`, KEY.replaceAll('-', ''), '%', ' '];
  const states = ['PENDING', 'UNKNOWN', 'COMPLETED ', 'COMPLETED,DECLINED', '*', 'toString'];
  it.each<[keyof ListQuery, string]>([
    ...states.map((text) => ['state', text] as [keyof ListQuery, string]),
    ...limits.map((text) => ['limit', text] as [keyof ListQuery, string]),
    ...moments.flatMap((text) => [
      ['from', text] as [keyof ListQuery, string],
      ['to', text] as [keyof ListQuery, string],
    ]),
    ...cursors.map((text) => ['cursor', text] as [keyof ListQuery, string]),
  ])('refuses the %s %j', (name, text) => {
    expect(problemOf(() => readSelection({ [name]: text }))).toMatch(new RegExp(`^'${name}' must `));
  });
});

describe('the day of an export', () => {
  it.each(['2026-11-20', '2028-02-29', '1970-01-01', '2000-12-31'])('is that day in UTC: %s', (text) => {
    const from = Date.parse(`${text}T00:00:00Z`);
    expect(readDay(text)).toEqual({ day: text, from, to: from + DAY_MS });
  });

  const NO_DAYS = `today 2026-11 2026-11-20T00:00:00Z 2026-1-2 20261120 2026-02-30 2027-02-29 2026-11-31 2026-13-01 2026-00-10
    2026-11-00 12026-11-20 \u0662\u0660\u0662\u0666-11-20`;
  it.each([undefined, '', '2026-11-20 ', ' 2026-11-20', ...NO_DAYS.split(/\s+/)])('is not %j', (text) => {
    expect(problemOf(() => readDay(text))).toMatch(/^'day' /);
  });
});

describe('the verdict of an operator', () => {
  it.each(['completed', 'declined', 'COMPLETED', 'Declined'])('is %s, in any case', (outcome) => {
    expect(verdict({ outcome, reason: 'seen' })).toEqual({ state: outcome.toUpperCase(), reason: 'seen' });
  });

  it.each([
    ['x', 'x'],
    ['  seen on the statement\n', 'seen on the statement'],
    [`caf\u00e9 ${EMOJI} "quoted"`, `caf\u00e9 ${EMOJI} "quoted"`],
    ['x'.repeat(500), 'x'.repeat(500)],
    [EMOJI.repeat(500), EMOJI.repeat(500)],
    [` ${'x'.repeat(500)} `, 'x'.repeat(500)],
  ])('keeps its reason, trimmed: %j', (reason, kept) => {
    expect(verdict({ outcome: 'declined', reason }).reason).toBe(kept);
  });

  it('may have other members, which are not read', () => {
    const read = verdict({ outcome: 'completed', reason: 'seen', by: { name: 'A' } });
    expect(read).toEqual({ state: 'COMPLETED', reason: 'seen' });
  });

  it.each([undefined, null, 1, true, [], {}, '', 'done', 'processing', 'pending', 'completed ', 'COMPLETED,DECLINED'])(
    "names 'outcome' when it is %j",
    (outcome) => {
      expect(problemOf(() => verdict({ outcome, reason: 'seen' }))).toMatch(/^'outcome' /);
    },
  );

  const NO_TEXTS = [undefined, null, 1, false, ['seen'], { text: 'seen' }, '', '   ', '\n\t\r', '\u00a0\ufeff'];
  const NO_REASONS = ['x'.repeat(501), EMOJI.repeat(501), 'two\nlines', 'a\ttab', 'a\u0000b', 'a\u007fb', 'a\u0085b'];
  it.each([...NO_TEXTS, ...NO_REASONS])("names 'reason' when it is %j", (reason) => {
    expect(problemOf(() => verdict({ outcome: 'completed', reason }))).toMatch(/^'reason' /);
  });

  it.each(['\\ud800', 'a\\udc00b', '\\udc00\\ud800'])("names 'reason' when it has half a character: %s", (escaped) => {
    expect(problemOf(() => verdictIn(`{"outcome":"completed","reason":"seen ${escaped}"}`))).toMatch(/^'reason' /);
  });

  it.each(['[]', 'null', '"completed"', '1', 'true'])('is not %s', (text) => {
    expect(problemOf(() => verdictIn(text))).toMatch(/JSON object/);
  });

  it.each(['outcome', 'reason', 'by'])('has no member twice: %s', (name) => {
    const body = `{"outcome":"completed","reason":"seen","by":"x","${name}":"completed"}`;
    expect(problemOf(() => verdictIn(body))).toMatch(`'${name}'`);
  });
});

function verdictIn(text: string) {
  return readVerdict(readJsonBody(Buffer.from(text)));
}

function verdict(body: unknown) {
  return verdictIn(JSON.stringify(body));
}

/** The message of the 400 that `read` throws. */
function problemOf(read: () => unknown): string {
  try {
    read();
  } catch (error) {
    expect(error).toBeInstanceOf(PublicError);
    expect((error as PublicError).status).toBe(400);
    return (error as PublicError).message;
  }
  throw new Error('nothing was refused');
}
