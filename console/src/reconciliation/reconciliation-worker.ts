import {
  type DayOffset,
  DIFFERENCE_CSV_HEADER,
  differenceCsvLine,
  exportedPayments,
  firstLines,
  type PaymentNames,
  readHead,
  reconcile,
  StatementError,
} from '@idempay/statements';
import { createFile } from '../parts/file-pieces.js';
import type { Reply, Request } from './messages.js';

/** A million rows must not stop the page, so they are compared in a thread of their own. */
declare const self: {
  onmessage: ((event: MessageEvent<Request>) => void) | null;
  postMessage(reply: Reply): void;
};

let given: ((bytes: Uint8Array | undefined) => void) | undefined;
let named: ((names: PaymentNames | undefined) => void) | undefined;

self.onmessage = ({ data }) => {
  switch (data.type) {
    case 'look':
      answer(async () => ({
        type: 'head',
        head: readHead(await firstLines(chunksOf(data.file.stream())), data.delimiter),
      }));
      return;
    case 'compare': {
      const { file, format, reading } = data;
      const onProgress = (progress: { rows: number; payments: number }) =>
        self.postMessage({ type: 'progress', progress });
      const statement = { ...reading, bytes: chunksOf(file.stream()), format };
      const differences = createFile(DIFFERENCE_CSV_HEADER);
      answer(async () => {
        const ours = { paymentsOf: (day: DayOffset) => exportedPayments(exportOf(day)), namesOf };
        const result = await reconcile(
          statement,
          ours,
          (found) => differences.add(differenceCsvLine(found)),
          onProgress,
        );
        return { type: 'result', result, differences: differences.end('text/csv;charset=utf-8') };
      });
      return;
    }
    case 'bytes':
      given?.(data.bytes);
      return;
    case 'names':
      named?.(data.names);
  }
};

function answer(work: () => Promise<Reply>): void {
  work().then(
    (reply) => self.postMessage(reply),
    (error: unknown) => self.postMessage({ type: 'failed', sentence: sentenceOf(error) }),
  );
}

function sentenceOf(error: unknown): string {
  if (error instanceof StatementError) return error.message;
  if (error instanceof DOMException) return 'The file cannot be read. Was it moved or changed? Choose it again.';
  return `The statement could not be compared: ${String(error)}.`;
}

function namesOf(payment: string): Promise<PaymentNames | undefined> {
  return new Promise((resolve) => {
    named = resolve;
    self.postMessage({ type: 'name', payment });
  });
}

async function* exportOf(day: DayOffset): AsyncGenerator<Uint8Array, void, void> {
  for (;;) {
    const bytes = await new Promise<Uint8Array | undefined>((resolve) => {
      given = resolve;
      self.postMessage({ type: 'next', day });
    });
    if (!bytes) return;
    yield bytes;
  }
}

/** Not every browser can iterate a stream. */
async function* chunksOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void, void> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel();
  }
}
