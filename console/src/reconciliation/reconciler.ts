import {
  type DayOffset,
  dayAfter,
  type PaymentNames,
  type Progress,
  type Reading,
  type Reconciliation,
  StatementError,
  type StatementFormat,
  type StatementHead,
} from '@idempay/statements';
import type { Http } from '../http/http.js';
import { errorOf, Unreachable } from '../http/service-error.js';
import type { Reply, Request } from './messages.js';

interface Comparing {
  readonly file: File;
  readonly format: StatementFormat;
  readonly reading: Reading;
  readonly day: string;
  /** Empty: of all processors. */
  readonly processor: string;
}

/** The form of a file, as its first lines show it. Rejects with a sentence for a person. */
export function lookAtStatement(
  file: File,
  delimiter: string | undefined,
  signal: AbortSignal,
): Promise<StatementHead> {
  return inWorker({ type: 'look', file, delimiter }, signal, (reply, _, done) => {
    if (reply.type === 'head') done(reply.head);
  });
}

/** Reads the file and our exports in a worker. The credential stays here: this side asks for the exports, piece by piece as they are read. */
export function compareStatement(
  http: Http,
  { file, format, reading, day, processor }: Comparing,
  onProgress: (progress: Progress) => void,
  signal: AbortSignal,
): Promise<{ readonly result: Reconciliation; readonly differences: Blob }> {
  let open: { readonly day: DayOffset; readonly reader: ReadableStreamDefaultReader<Uint8Array> } | undefined;

  async function nextBytes(offset: DayOffset): Promise<Uint8Array | undefined> {
    if (open?.day !== offset) {
      const query = { day: dayAfter(day, offset), processor, kind: 'all' };
      const response = await http.send('api/payments/export', { query, signal, limitMs: null });
      if (!response.ok || !response.body) throw await errorOf(response);
      open = { day: offset, reader: response.body.getReader() };
    }
    // An export that ends early is no export: its connection is cut, and this rejects.
    const { value } = await open.reader.read().catch((cause: unknown) => {
      throw new Unreachable(cause);
    });
    return value;
  }

  async function namesOf(payment: string): Promise<PaymentNames | undefined> {
    const response = await http.send(`api/payments/${payment}`, { signal });
    // It was removed meanwhile, with its refunds.
    if (response.status === 404) return undefined;
    if (!response.ok) throw await errorOf(response);
    return response.json();
  }

  return inWorker({ type: 'compare', file, format, reading }, signal, (reply, post, done, fail) => {
    switch (reply.type) {
      case 'progress':
        onProgress(reply.progress);
        return;
      case 'next':
        nextBytes(reply.day).then((bytes) => post({ type: 'bytes', bytes }), fail);
        return;
      case 'name':
        namesOf(reply.payment).then((names) => post({ type: 'names', names }), fail);
        return;
      case 'result':
        done({ result: reply.result, differences: reply.differences });
    }
  });
}

function inWorker<T>(
  request: Request,
  signal: AbortSignal,
  take: (
    reply: Reply,
    post: (request: Request) => void,
    done: (result: T) => void,
    fail: (error: unknown) => void,
  ) => void,
): Promise<T> {
  const worker = new Worker(new URL('./reconciliation-worker.ts', import.meta.url), { type: 'module' });
  const post = (message: Request) =>
    worker.postMessage(message, message.type === 'bytes' && message.bytes ? [message.bytes.buffer] : []);
  return new Promise<T>((resolve, reject) => {
    worker.onmessage = ({ data }: MessageEvent<Reply>) => {
      if (data.type === 'failed') reject(new StatementError(data.sentence));
      else take(data, post, resolve, reject);
    };
    // Its file has another name after an update of the service.
    worker.onerror = () =>
      reject(new StatementError('The comparison could not run. The service may have been updated: reload the page.'));
    signal.addEventListener('abort', () => reject(signal.reason));
    post(request);
  }).finally(() => worker.terminate());
}
