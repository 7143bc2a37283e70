// Takes payments from a queue that delivers a job at least once. The guide is docs/guides/queue.md.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import {
  DeclinedError,
  Idempay,
  InvalidRequestError,
  type PaymentRequest,
  UnavailableError,
  UnknownOutcomeError,
} from 'idempay/client';
import { keepOnce, keptText } from '../keep-once.ts';
import { payOnce } from '../pay-once.ts';

const { IDEMPAY_URL = 'http://127.0.0.1:8080', IDEMPAY_API_KEY, QUEUE = './data/queue' } = process.env;
const idempay = new Idempay({ baseUrl: IDEMPAY_URL, ...(IDEMPAY_API_KEY && { apiKey: IDEMPAY_API_KEY }) });
const POLL_MS = 200;

/** May run twice for one job, also at the same time, and may be killed at any line. */
async function work(job: string): Promise<void> {
  const file = (kind: string) => join(QUEUE, `${job}.${kind}`);
  if ((await keptText(file('done'))) !== undefined) return;
  const payment = JSON.parse(await readFile(file('job'), 'utf8')) as PaymentRequest;
  try {
    const { transactionId } = await payOnce(idempay, payment, file('key'));
    await keepOnce(file('done'), `paid ${transactionId}`);
  } catch (error) {
    if (error instanceof DeclinedError) await keepOnce(file('done'), `declined ${error.reason}`);
    else if (error instanceof InvalidRequestError) await keepOnce(file('done'), `refused ${error.message}`);
    else if (error instanceof UnknownOutcomeError || error instanceof UnavailableError) {
      // Not acknowledged: the queue delivers it again, and the key is kept.
      console.error(`${job}: ${error.message}`);
    } else throw error;
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
