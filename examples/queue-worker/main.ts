// Takes payments from a queue that delivers a job at least once. The guide is docs/guides/queue.md.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import {
  DeadKeyError,
  DeclinedError,
  Idempay,
  InvalidRequestError,
  isSamePayment,
  type PaymentRequest,
  UnavailableError,
  UnexpectedAnswerError,
  UnknownOutcomeError,
} from '@idempay/client';
import { keepOnce, keptText } from '../keep-once.ts';
import { payOnce } from '../pay-once.ts';

const { IDEMPAY_URL = 'http://127.0.0.1:8080', IDEMPAY_API_KEY, QUEUE = './data/queue' } = process.env;
const idempay = new Idempay({ baseUrl: IDEMPAY_URL, ...(IDEMPAY_API_KEY && { apiKey: IDEMPAY_API_KEY }) });
const POLL_MS = 200;
const TRY_AGAIN = [UnknownOutcomeError, UnavailableError, UnexpectedAnswerError];

/** May run twice for one job, also at the same time, and may be killed at any line. */
async function work(job: string): Promise<void> {
  const file = (kind: string) => join(QUEUE, `${job}.${kind}`);
  if ((await keptText(file('done'))) !== undefined || (await keptText(file('alert'))) !== undefined) return;
  const payment = JSON.parse(await readFile(file('job'), 'utf8')) as PaymentRequest;
  try {
    const paid = await payOnce(idempay, payment, file('key'));
    // The key pays what it was first sent with, whatever the job says by now. Null where the record could not be read.
    if (isSamePayment(paid, payment)) await keepOnce(file('done'), `paid ${paid.transactionId}`);
    else await alert(`${paid.transactionId} has paid ${paid.amount} ${paid.currency}: compare it with the job`);
  } catch (error) {
    if (error instanceof DeclinedError) await keepOnce(file('done'), `declined ${error.reason}`);
    else if (error instanceof InvalidRequestError) await keepOnce(file('done'), `refused ${error.message}`);
    // One of the UnknownOutcomeErrors, so it is asked for first: to deliver the job again does not help.
    else if (error instanceof DeadKeyError) await alert(`look for the key ${error.key} at the processor`);
    else if (TRY_AGAIN.some((kind) => error instanceof kind)) {
      // Not acknowledged: the queue delivers it again, and the key is kept.
      console.error(`${job}: ${(error as Error).message}`);
    } else throw error;
  }

  /** Once: the job rests until a person has looked, and writes what became of it, or takes the alert away. */
  async function alert(text: string): Promise<void> {
    console.error(`${job}: ${await keepOnce(file('alert'), text)}`);
  }
}

let isStopping = false;
process.once('SIGTERM', () => {
  isStopping = true;
});
while (!isStopping) {
  const names = await readdir(QUEUE);
  const jobs = names.filter((name) => name.endsWith('.job')).map((name) => name.slice(0, -'.job'.length));
  for (const job of jobs) if (!isStopping) await work(job);
  await pause(POLL_MS);
}
