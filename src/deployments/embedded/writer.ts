import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { StoreUnavailable } from '../../errors.js';
import {
  CLOSE,
  type WriteBatch,
  type WriteFault,
  type WriteName,
  type WriteOperations,
  type WriteResults,
} from './write-operations.js';

/** Bounds one commit, and so how long anyone waits for it. */
const MAX_BATCH = 1_000;
/**
 * From this many on, a batch does not wait for the end of the event loop's turn: the thread then commits while the rest of
 * the turn is worked on, instead of both waiting for each other in turn.
 */
const EAGER_BATCH = 16;

interface Waiting {
  readonly name: WriteName;
  readonly parameters: readonly unknown[];
  readonly resolve: (value: never) => void;
  readonly reject: (fault: Error) => void;
}

/**
 * The main thread's end of the writer thread. Operations that arrive while a commit is under way form the next one (group
 * commit), so they share one fsync, and the event loop never waits for the disk. A promise resolves after the commit.
 */
export class Writer {
  private waiting: Waiting[] = [];
  private underWay: readonly Waiting[] = [];
  private flushScheduled = false;
  private broken: Error | undefined;

  private constructor(
    private readonly worker: Worker,
    private readonly onBroken: (error: Error) => void,
  ) {
    worker.on('message', (results: string) => this.settle(JSON.parse(results) as WriteResults));
    worker.on('error', (error) => this.breakDown(error));
    worker.on('exit', () => this.breakDown(new Error('the writer thread ended')));
  }

  /** Resolves when the database is open for writing and every claim found in it counts as abandoned. */
  static async open(path: string, onBroken: (error: Error) => void): Promise<Writer> {
    const worker = new Worker(new URL('./writer-thread.js', import.meta.url), { workerData: { path } });
    await once(worker, 'message');
    return new Writer(worker, onBroken);
  }

  /** Faults are StoreUnavailable: `unchanged` when it was surely not written. */
  write<N extends WriteName>(
    name: N,
    ...parameters: Parameters<WriteOperations[N]>
  ): Promise<ReturnType<WriteOperations[N]>> {
    if (this.broken) return Promise.reject(new StoreUnavailable('unchanged', 'the database is broken', this.broken));
    return new Promise((resolve, reject) => {
      this.waiting.push({ name, parameters, resolve, reject });
      if (this.waiting.length >= EAGER_BATCH) this.flush();
      else this.scheduleFlush();
    });
  }

  /** Commits what waits, then closes the database. */
  async close(): Promise<void> {
    if (this.broken) {
      await this.worker.terminate();
      return;
    }
    await this.write('ping');
    this.worker.removeAllListeners('exit');
    this.broken = new Error('the database was closed');
    this.worker.postMessage(CLOSE);
    await once(this.worker, 'exit');
  }

  /** After the poll phase, so that all requests of one turn of the event loop travel together. */
  private scheduleFlush(): void {
    if (this.flushScheduled || this.underWay.length > 0) return;
    this.flushScheduled = true;
    setImmediate(() => {
      this.flushScheduled = false;
      this.flush();
    });
  }

  private flush(): void {
    if (this.underWay.length > 0 || this.waiting.length === 0 || this.broken) return;
    this.underWay = this.waiting.slice(0, MAX_BATCH);
    this.waiting = this.waiting.slice(MAX_BATCH);
    const batch: WriteBatch = {
      names: this.underWay.map((waiting) => waiting.name),
      parameters: this.underWay.map((waiting) => waiting.parameters),
    };
    this.worker.postMessage(JSON.stringify(batch));
  }

  private settle({ values, faults }: WriteResults): void {
    const settled = this.underWay;
    this.underWay = [];
    const broken = faults?.find((fault) => fault?.fault === 'broken');
    // The next batch is on its way before this one is answered: the thread commits while the answers are written.
    if (!broken) this.flush();
    for (const [index, { resolve, reject }] of settled.entries()) {
      const fault = faults?.[index];
      if (fault) reject(exceptionFor(fault));
      else resolve(values[index] as never);
    }
    if (broken) this.breakDown(new Error(broken.message));
  }

  private breakDown(error: Error): void {
    if (this.broken) return;
    this.broken = error;
    for (const { reject } of this.underWay) reject(new StoreUnavailable('unknown', 'the database failed', error));
    for (const { reject } of this.waiting) reject(new StoreUnavailable('unchanged', 'the database failed', error));
    this.underWay = [];
    this.waiting = [];
    this.onBroken(error);
  }
}

function exceptionFor({ fault, message }: WriteFault): Error {
  switch (fault) {
    case 'refused':
      return new Error(`a write was refused: ${message}`);
    case 'full':
      return new StoreUnavailable('unchanged', 'the disk is full', message);
    case 'broken':
      return new StoreUnavailable('unknown', 'the database failed', message);
  }
}
