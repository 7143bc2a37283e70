/**
 * Bug: an export that was cut in the middle was reported as whole, behind a proxy that speaks HTTP/1.0 to the service.
 * Cause: there the end of the connection is the only end of an answer, and half of it ends in the same way.
 * Fix: the last line of an export counts the lines before it; without it, or with another count, the client rejects.
 */

import { InvalidRequestError, UnavailableError, UnexpectedAnswerError } from '@idempay/client';
import { describe, expect, test } from 'vitest';
import { allOf, json, KEY, page, scripted } from '../../../testkit/client-library/scripted-fetch.js';

const DAY = '2026-11-25';
const payment = (amount: string) => ({
  idempotencyKey: KEY,
  state: 'COMPLETED',
  transactionId: 'TXN1',
  amount,
  currency: 'EUR',
});
const PAYMENTS = ['10.00', '20.00', '7.00'].map(payment);
const LINES = PAYMENTS.map((each) => `${JSON.stringify(each)}\n`);
const END = '{"end":true,"count":3,"sums":{"EUR":"37.00"}}\n';
const ndjson = (text: string) =>
  new Response(text, { headers: { 'content-type': 'application/x-ndjson; charset=utf-8' } });
const exported = (answer: Response, day: string = DAY) => allOf(scripted([answer]).idempay.payments.export(day));

describe('an export of payments', () => {
  test('is whole with its last line, which is none of its payments', async () => {
    expect(await exported(ndjson([...LINES, END].join('')))).toEqual(PAYMENTS);
    expect(await exported(ndjson('{"end":true,"count":0,"sums":{}}\n'))).toEqual([]);
  });

  test('that is cut anywhere rejects', async () => {
    const whole = [...LINES, END].join('');
    for (let length = 0; length < whole.length; length += 1) {
      await expect(exported(ndjson(whole.slice(0, length))), `${length} characters`).rejects.toBeInstanceOf(
        UnavailableError,
      );
    }
  });

  test('that lacks a line in the middle rejects', async () => {
    const [first = '', , third = ''] = LINES;
    await expect(exported(ndjson([first, third, END].join('')))).rejects.toBeInstanceOf(UnavailableError);
  });

  test('with something else in it, or behind its end, is another answer', async () => {
    const wrong = [...LINES, END, '<html>'];
    for (const text of [
      wrong.join(''),
      [...LINES, END, END].join(''),
      [...LINES, '\n', END].join(''),
      '[1,2]\n',
      '{}\n',
      '<html>\n',
    ]) {
      await expect(exported(ndjson(text)), text).rejects.toBeInstanceOf(UnexpectedAnswerError);
    }
    for (const answer of [page(200), json([]), page(404), page(302)]) {
      await expect(exported(answer)).rejects.toBeInstanceOf(UnexpectedAnswerError);
    }
  });

  test('takes a day of the calendar in UTC as text, and nothing else', async () => {
    const { idempay, sent } = scripted([ndjson('{"end":true,"count":0,"sums":{}}\n')]);
    for (const day of ['2026-02-30', '2026-13-01', '26-11-25', '2026-11-25T00:00:00Z', '', 'today']) {
      await expect(allOf(idempay.payments.export(day)), day).rejects.toBeInstanceOf(InvalidRequestError);
    }
    for (const day of [new Date(2026, 10, 25), new Date(Number.NaN), 20261125, undefined, null]) {
      const exporting = allOf(idempay.payments.export(day as never));
      await expect(exporting, String(day)).rejects.toThrow("'day' must be a day in UTC as text, such as '2026-11-25'.");
    }
    expect(sent).toEqual([]);
    await allOf(idempay.payments.export(DAY));
    expect(sent[0]?.path).toBe('/api/payments/export?day=2026-11-25');
  });

  test('takes the last of several days, and never one day in its place', async () => {
    const { idempay, sent } = scripted([ndjson('{"end":true,"count":0,"sums":{}}\n')]);
    for (const lastDay of ['', '2026-11-31', null, new Date()]) {
      const exporting = allOf(idempay.payments.export(DAY, { lastDay: lastDay as never }));
      await expect(exporting, String(lastDay)).rejects.toThrow("'lastDay' must be a day in UTC as text");
    }
    expect(sent).toEqual([]);
    await allOf(idempay.payments.export(DAY, { lastDay: '2026-12-01', processor: 'acme' }));
    expect(sent[0]?.path).toBe('/api/payments/export?day=2026-11-25&lastDay=2026-12-01&processor=acme');
  });

  test('a list takes a content that is there, and never that of everybody in its place', async () => {
    const { idempay, sent } = scripted([json([])]);
    for (const content of ['', undefined, null, 5]) {
      const listing = allOf(idempay.payments.list({ content: content as never, from: DAY }));
      await expect(listing, String(content)).rejects.toThrow("'content' must be a description");
    }
    expect(sent).toEqual([]);
    await allOf(idempay.payments.list({ content: 'ann@shop.example', from: DAY }));
    expect(sent[0]?.path).toBe('/api/payments?content=ann%40shop.example&from=2026-11-25');
  });

  test('an invalid Date in the filter of a list is an error of the client', async () => {
    const listing = allOf(scripted([]).idempay.payments.list({ from: new Date(Number.NaN) }));
    await expect(listing).rejects.toThrow("'from' must be a valid Date");
  });
});
