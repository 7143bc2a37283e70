// A shop that is killed at any moment, and started again on its journal: what it wrote there is all that it knows. Each order is paid
// by one call of `pay`, and after that by `resume` only. `SERVICE_URL`, `JOURNAL`; `LAST=1`: begins no new orders, and ends.
// `BY_REFERENCE=1`: the order is paid by its number, again and again by the same call, and no key is ever read back.
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import {
  DeadKeyError,
  DeclinedError,
  Idempay,
  UnavailableError,
  UnexpectedAnswerError,
  UnknownOutcomeError,
} from '@idempay/client';
import { isNotAttempted } from './not-attempted.mjs';

const WIDTH = 6;
const DEADLINE_MS = 5_000;
const LONGEST_KEEP_MS = 10;
const { SERVICE_URL, JOURNAL, LAST, BY_REFERENCE } = process.env;

const idempay = new Idempay({ baseUrl: SERVICE_URL, attemptTimeoutMs: 1_500 });
const orders = ordersIn(JOURNAL);
const open = [...orders].filter(([, { ended }]) => !ended).map(([number]) => number);
await Promise.all(Array.from({ length: WIDTH }, work));

async function work() {
  for (;;) {
    const number = open.shift() ?? (LAST ? undefined : orders.size);
    if (number === undefined) return;
    if (!orders.has(number)) note(number, { event: 'begun' });
    await settle(number);
  }
}

async function settle(number) {
  const payment = { amount: amountOf(number), currency: 'USD' };
  try {
    const paid = await (BY_REFERENCE ? payOrder(number, payment) : payKey(number, payment));
    note(number, { event: 'ended', told: { state: 'paid', transactionId: paid.transactionId, key: paid.key } });
  } catch (fault) {
    // That is true for this call alone: an order that was begun before may be paid, so the same is sent again.
    if (BY_REFERENCE && isUnclear(fault)) open.push(number);
    else if (fault instanceof DeclinedError)
      note(number, { event: 'ended', told: { state: 'declined', key: fault.key } });
    else if (isNotAttempted(fault)) note(number, { event: 'ended', told: { state: 'not attempted' } });
    else if (fault instanceof DeadKeyError && fault.record === null) {
      note(number, { event: 'ended', told: { state: 'unknown', key: fault.key, record: 'none' } });
    } else if (fault instanceof UnknownOutcomeError) open.push(number);
    else note(number, { event: 'ended', told: { state: 'wrong', what: String(fault?.stack) } });
  }
}

function isUnclear(fault) {
  return [UnknownOutcomeError, UnavailableError, UnexpectedAnswerError].some((kind) => fault instanceof kind);
}

function payOrder(number, payment) {
  const { isStarted } = orders.get(number);
  if (isStarted) note(number, { event: 'resumed' });
  else console.log('begun');
  return idempay.payments.pay(payment, { reference: `order-${number}`, deadlineMs: DEADLINE_MS });
}

function payKey(number, payment) {
  const { key } = orders.get(number);
  if (key === undefined) {
    return idempay.payments.pay(payment, { onKey: (given) => keep(number, given), deadlineMs: DEADLINE_MS });
  }
  note(number, { event: 'resumed' });
  return idempay.payments.resume(key, payment, { deadlineMs: DEADLINE_MS });
}

/** As long as a write to a database takes. A kill in between loses the key: nothing may have been sent with it. */
async function keep(number, key) {
  await pause(Math.random() * LONGEST_KEEP_MS);
  note(number, { event: 'key', key });
}

function note(number, line) {
  appendFileSync(JOURNAL, `${JSON.stringify({ number, ...line })}\n`);
  // The kill waits for it: so there is a key to go on with, however busy the machine is.
  if (line.event !== 'begun') console.log(line.event);
  orders.set(number, { ...orders.get(number), ...(line.key && { key: line.key }), ...(line.told && { ended: true }) });
}

function ordersIn(journal) {
  const found = new Map();
  const text = existsSync(journal) ? readFileSync(journal, 'utf8') : '';
  for (const line of text.split('\n').slice(0, -1)) {
    const { number, key, told } = JSON.parse(line);
    // An earlier process wrote it, and may have sent the payment.
    found.set(number, { ...found.get(number), isStarted: true, ...(key && { key }), ...(told && { ended: true }) });
  }
  return found;
}

function amountOf(index) {
  return `${Math.floor(index / 100) + 1}.${`${index % 100}`.padStart(2, '0')}`;
}
