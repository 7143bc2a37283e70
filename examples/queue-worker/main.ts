// Takes payments from a queue that delivers a job at least once. The guide is docs/guides/queue.md.
import { readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import {
  CancelledError,
  DeclinedError,
  Idempay,
  InvalidRequestError,
  MismatchError,
  type PaymentRequest,
  UnavailableError,
  UnknownOutcomeError,
} from '@idempay/client';

const { IDEMPAY_URL = 'http://127.0.0.1:8080', IDEMPAY_API_KEY, QUEUE = './data/queue' } = process.env;
const idempay = new Idempay({ baseUrl: IDEMPAY_URL, ...(IDEMPAY_API_KEY && { apiKey: IDEMPAY_API_KEY }) });
const POLL_MS = 200;

/** May run twice for one job, also at the same time, and may be killed at any line. */
async function work(job: string): Promise<void> {
  const payment = JSON.parse(await readFile(join(QUEUE, `${job}.job`), 'utf8')) as PaymentRequest;
  try {
    const { transactionId } = await idempay.payments.pay(payment, { reference: job });
    await acknowledge(`paid ${transactionId}`);
  } catch (error) {
    if (error instanceof DeclinedError) await acknowledge(`declined ${error.reason}`);
    else if (error instanceof CancelledError) await acknowledge('cancelled');
    else if (error instanceof InvalidRequestError) await acknowledge(`refused ${error.message}`);
    // The job came again with another amount, and is charged neither now nor later.
    else if (error instanceof MismatchError) await acknowledge(`changed: ${error.message}`);
    // Not acknowledged, so the queue delivers it again.
    else if (error instanceof UnknownOutcomeError || error instanceof UnavailableError)
      console.error(`${job}: ${error.message}`);
    else throw error;
  }

  /** Killed before it: the next delivery gets the same outcome. */
  async function acknowledge(outcome: string): Promise<void> {
    const draft = join(QUEUE, `${job}.${process.pid}.draft`);
    await writeFile(draft, outcome);
    await rename(draft, join(QUEUE, `${job}.done`));
  }
}

let isStopping = false;
process.once('SIGTERM', () => {
  isStopping = true;
});
while (!isStopping) {
  const names = await readdir(QUEUE);
  const jobs = names.filter((name) => name.endsWith('.job')).map((name) => name.slice(0, -'.job'.length));
  for (const job of jobs) if (!isStopping && !names.includes(`${job}.done`)) await work(job);
  await pause(POLL_MS);
}
