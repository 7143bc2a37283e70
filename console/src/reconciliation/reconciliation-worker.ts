import type { Reply, Request } from './messages.js';
import { type DayOffset, reconcile } from './reconcile.js';
import { StatementError } from './statement-error.js';
import { readHead } from './statement-format.js';

/** The lines in it show the columns; a line that is cut off at its end is left out. */
const HEAD_BYTES = 262_144;

/** A million rows must not stop the page, so they are compared in a thread of their own. */
declare const self: {
  onmessage: ((event: MessageEvent<Request>) => void) | null;
  postMessage(reply: Reply): void;
};

let given: ((bytes: Uint8Array | undefined) => void) | undefined;

self.onmessage = ({ data }) => {
  switch (data.type) {
    case 'look':
      answer(async () => ({ type: 'head', head: readHead(await firstLines(data.file)) }));
      return;
    case 'compare': {
      const { file, format, columns } = data;
      const onProgress = (progress: { rows: number; payments: number }) =>
        self.postMessage({ type: 'progress', progress });
      const statement = { bytes: chunksOf(file.stream()), format, columns };
      answer(async () => ({ type: 'result', result: await reconcile(statement, exportOf, onProgress) }));
      return;
    }
    case 'bytes':
      given?.(data.bytes);
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

async function firstLines(file: File): Promise<string[]> {
  const head = await file.slice(0, HEAD_BYTES).text();
  const lines = head.split('\n').map((line) => line.replace(/\r$/, ''));
  return file.size > HEAD_BYTES && lines.length > 1 ? lines.slice(0, -1) : lines;
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
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}
