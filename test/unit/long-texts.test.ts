/**
 * Bug: one number of 64,000 digits in a batch kept the process from everything else for 5.6 s; one of 1 MiB would take 20 minutes.
 * Cause: an expression such as `0+$` starts again at every zero, so its time grows with the square of the text. The length of the number
 * was looked at afterwards only.
 * Fix: the length first, and zeros in one pass. These are all readers of unbounded text that had an expression of this kind.
 */
import { DeclinedError, isSamePayment } from '@idempay/client';
import { expect, test } from 'vitest';
import { readNdjsonRow } from '#idempay/commands/import/rows.js';
import { readJsonBody } from '#idempay/http/requests/json-body.js';
import { BATCH_ROWS, readNewTransactions } from '#idempay/http/transactions/create-transactions.js';
import { amountOf, readAmount } from '#idempay/statements/amounts.js';
import { objectIn } from '#idempay/statements/records.js';
import {
  allOf,
  COMPUTED_KEY,
  failureOf,
  HUNDRED,
  json,
  refusal,
  scripted,
} from '../../testkit/client-library/scripted-fetch.js';

/**
 * A text of this length takes milliseconds of processor time if the time is linear, and 5 to 60 seconds if it is quadratic. A batch may have
 * five times as much, which would take 25 times as long.
 */
const LENGTH = 200_000;
const LIMIT_MS = 2_000;
const MEGABYTE = 1024 * 1024;

const ZEROS = '0'.repeat(LENGTH);
/** The zeros must not end the text: what ends it is found at once. */
const LONG_NUMBER = `1.${ZEROS}1`;
const rowOf = (amount: string) => `{"fromAccount":"a","toAccount":"b","amount":${amount}}`;

async function expectQuick(read: () => unknown): Promise<void> {
  const begun = process.cpuUsage();
  await read();
  expect(process.cpuUsage(begun).user).toBeLessThan(1_000 * LIMIT_MS);
}

test.each([
  ['number', LONG_NUMBER],
  ['number with an exponent', `${LONG_NUMBER}e-10`],
  ['text', `"${LONG_NUMBER}"`],
])('a batch whose amount is a %s of 200,000 characters is refused at once', async (_what, amount) => {
  await expectQuick(() => {
    const body = readJsonBody(Buffer.from(`{"transactions":[${rowOf(amount)}]}`), BATCH_ROWS);
    expect(() => readNewTransactions(body)).toThrow("'amount' must");
  });
});

/**
 * Bug: a megabyte of spaces kept the process from everything else for half a second, and a megabyte of escapes for a fifth.
 * Cause: the scanner of JSON appends each blank, and each escape, to a string of its own.
 * Fix: it gets line breaks in place of blanks, and no escapes. Before, each took 15 to 40 times as long as plain text.
 */
test.each([
  ['spaces', `${' '.repeat(MEGABYTE)}{}`],
  ['tabs between two members', `{"a":1,${'\t'.repeat(MEGABYTE)}"b":2}`],
  ['escapes in a text', `{"a":"${'\\n'.repeat(MEGABYTE / 2)}"}`],
  ['escapes in a name', `{"${'\\"'.repeat(MEGABYTE / 2)}":1}`],
])('a megabyte of %s takes a few times as long to read as a megabyte of plain text', (_what, text) => {
  const plain = leastMsToRead(`{"a":"${'x'.repeat(MEGABYTE)}"}`);
  expect(leastMsToRead(text)).toBeLessThan(10 * plain);
});

/** Processor time of the fastest of some runs, which other processes disturb least. */
function leastMsToRead(text: string): number {
  const bytes = Buffer.from(text);
  const took = Array.from({ length: 7 }, () => {
    const begun = process.cpuUsage();
    readJsonBody(bytes);
    const { user, system } = process.cpuUsage(begun);
    return (user + system) / 1_000;
  });
  return Math.min(...took);
}

test('a row of an import with a number of 200,000 characters is rejected at once', async () => {
  await expectQuick(() => {
    expect(readNdjsonRow(Buffer.from(rowOf(LONG_NUMBER)), []).state).toBe('rejected');
  });
});

test('a statement with a number of 200,000 characters, and with a string that nothing closes, is judged at once', async () => {
  await expectQuick(() => {
    expect(readAmount(LONG_NUMBER)).toHaveProperty('problem');
    const amount = readAmount(`1.5${ZEROS}`);
    expect('units' in amount && amountOf(amount.units, 'EUR')).toBe('1.50');
    for (const text of [
      `${'1,000'.repeat(LENGTH / 5)}x`,
      `1${' 000'.repeat(LENGTH / 4)}x`,
      `${' '.repeat(LENGTH)}x`,
      `${'1'.repeat(LENGTH)}-x`,
    ])
      expect(readAmount(text)).toHaveProperty('problem');
    expect(objectIn(`{"note":"${'\\"'.repeat(LENGTH / 2)}`)).toBeUndefined();
  });
});

test('a client compares amounts of 200,000 characters at once', async () => {
  await expectQuick(() => {
    expect(isSamePayment({ amount: LONG_NUMBER, currency: 'USD' }, { amount: '1', currency: 'USD' })).toBe(false);
    expect(isSamePayment({ amount: `1.${ZEROS}`, currency: 'USD' }, { amount: '1', currency: 'USD' })).toBe(true);
  });
});

test('a client reads a Link of 200,000 characters, and a decline of 200,000 characters, at once', async () => {
  await expectQuick(async () => {
    const link = '<'.repeat(LENGTH);
    expect(await allOf(scripted([json([], 200, { link })]).idempay.payments.list())).toEqual([]);

    const attempts = ' (attempt 1). Pay with another reference, '.repeat(LENGTH / 40);
    const declined = refusal(402, `Payment declined: no${attempts}\nEnd.`, { 'idempotency-key': COMPUTED_KEY });
    const paying = scripted([declined]).idempay.payments.pay(HUNDRED, { reference: 'order-17' });
    expect((await failureOf(DeclinedError, paying)).reason).toBe('no');
  });
});
