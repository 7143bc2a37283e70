// Takes payments from a queue that delivers a job at least once. The guide is docs/guides/queue.md.
import { readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import {
  CancelledError,
  DeadKeyError,
  DeclinedError,
  Idempay,
  InvalidRequestError,
  MismatchError,
  OutOfTurnError,
  type PaymentRequest,
} from '@idempay/client';

const { IDEMPAY_URL = 'http://127.0.0.1:8080', IDEMPAY_API_KEY, QUEUE = './data/queue' } = process.env;
const idempay = new Idempay({ baseUrl: IDEMPAY_URL, ...(IDEMPAY_API_KEY && { apiKey: IDEMPAY_API_KEY }) });
const POLL_MS = 200;
/** A job whose outcome is not known yet holds up only the jobs beside it. */
const AT_ONCE = 8;

/** May run twice for one job, also at the same time, and may be killed at any line. One job never ends the worker. */
async function work(job: string): Promise<void> {
  try {
    await acknowledge(job, await outcomeOf(job));
  } catch (error) {
    // Not known yet, not possible now, or a fault of this worker. Not acknowledged, so the queue delivers it again.
    console.error(`${job}: ${(error as Error).message}`);
  }
}

/** Rejects for as long as there is no final outcome. */
async function outcomeOf(job: string): Promise<string> {
  try {
    const payment = paymentIn(JSON.parse(await readFile(join(QUEUE, `${job}.job`), 'utf8')));
    const { transactionId } = await idempay.payments.pay(payment, { reference: job, deadlineMs: 10_000 });
    return `paid ${transactionId}`;
  } catch (error) {
    if (error instanceof DeclinedError) return `declined ${error.reason}`;
    if (error instanceof CancelledError) return 'cancelled';
    // Declined before, and the order has a later attempt by now: that attempt has the outcome.
    if (error instanceof OutOfTurnError) return `superseded: ${error.message}`;
    // The job came again with another amount, and is charged neither now nor later.
    if (error instanceof MismatchError) return `changed: ${error.message}`;
    // Cancelled after its row had been lost, and charged all the same. Delivering it again does not help: a person refunds it.
    if (error instanceof DeadKeyError) return `to refund: ${error.message}`;
    // The job itself is wrong. Any other refusal is of the address or of a setting, and the job waits until somebody corrects that.
    if (isFaultOfJob(error)) return `refused ${error.message}`;
    throw error;
  }
}

/** No payer is present who could confirm at a bank: a charge that needs it is declined. */
function paymentIn(job: PaymentRequest): PaymentRequest {
  const { returnUrl: _, ...payment } = { returnUrl: undefined, ...job };
  return payment;
}

const TYPES_OF_JOB = ['body-too-large', 'invalid-body', 'invalid-reference', 'reference-without-number'].map(
  (type) => `/problems#${type}`,
);

/** Jobs appear whole, by rename, so one that is no JSON never becomes any. */
function isFaultOfJob(error: unknown): error is Error {
  if (error instanceof SyntaxError) return true;
  if (!(error instanceof InvalidRequestError)) return false;
  // The client itself refuses some requests without a status: it has not sent them.
  return error.status === undefined || TYPES_OF_JOB.includes(error.type ?? '');
}

/** Killed before it: the next delivery gets the same outcome. */
async function acknowledge(job: string, outcome: string): Promise<void> {
  const draft = join(QUEUE, `${job}.${process.pid}.draft`);
  await writeFile(draft, outcome);
  await rename(draft, join(QUEUE, `${job}.done`));
}

let isStopping = false;
process.once('SIGTERM', () => {
  isStopping = true;
});
while (!isStopping) {
  const names = await readdir(QUEUE);
  const jobs = names.filter((name) => name.endsWith('.job')).map((name) => name.slice(0, -'.job'.length));
  const open = jobs.filter((job) => !names.includes(`${job}.done`));
  for (let at = 0; at < open.length && !isStopping; at += AT_ONCE)
    await Promise.all(open.slice(at, at + AT_ONCE).map(work));
  await pause(POLL_MS);
}
