import { type EventEmitter, once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { type Clock, systemClock } from '../../../platform/clock.js';
import { StoreUnavailable } from '../../../platform/faults.js';
import { endsWithin } from '../../../platform/time-limit.js';
import { BoundedQueue } from '../../shared/bounded-queue.js';
import type { StoreEvents } from '../../shared/deployment.js';
import { NOT_MEASURED, type QueueMeasure, type RoundTrips, type StoreMeasures } from '../../shared/store-measures.js';
import { BUSY_TIMEOUT_MS } from '../file/sqlite.js';
import { receiveTime, StoreClock, sendTime } from '../store-clock.js';
import {
  CLOSE,
  type Ready,
  type WriteBatch,
  type WriteFault,
  type WriteName,
  type WriteOperations,
  type WriteResults,
  type WriterThreadData,
} from './write-operations.js';

/** Bounds the duration of one commit. */
const MAX_BATCH = 1_000;
/** One batch that is being committed, and one that the thread can start next without waiting for the main thread. */
const MAX_HANDED_OVER = 2;
/**
 * A batch that was handed over can no longer be refused. So none is handed over behind a commit that takes longer than this: it
 * might be answered as unknown, while in the queue it can be refused with nothing changed.
 */
const PROMPT_MS = 20;
/**
 * A batch of this size is handed over before the event loop's iteration ends, so that the thread commits while this thread
 * does the rest of it.
 */
const EAGER_BATCH = 16;
/** Twenty batches: more than a healthy disk takes in the time that an operation waits at most. */
const MAX_WAITING = 20_000;
/** A batch that the thread has had for this long, with none before it, is answered as unknown. SQLite waits for a locked file for less. */
const HANDED_OVER_LIMIT_MS = BUSY_TIMEOUT_MS + 1_000;
/** For the last commit and the move of the log into the file. */
const CLOSE_LIMIT_MS = 10_000;
/** A thread that does not end then is stuck in a call to the operating system. */
const TERMINATE_LIMIT_MS = 1_000;

interface QueuedWrite {
  readonly name: WriteName;
  readonly input: unknown;
  resolve: (value: never) => void;
  reject: (fault: Error) => void;
}

interface Batch {
  readonly waiting: readonly QueuedWrite[];
  readonly roundTrip: number;
  readonly handedOverAt: number;
  /** Undefined when it has been answered as unknown. */
  cancelLimit: (() => void) | undefined;
}

/** The success of these operations proves that the disk has room; others may have written nothing. */
const NEED_ROOM: ReadonlySet<WriteName> = new Set(['issueKey', 'settle', 'createTransaction', 'tryCommit', 'passTime']);
const STORE = 'The database file';

/** The writer thread as its main thread sees it: a `Worker`, or what stands in for one. It emits `message`, `error` and `exit`. */
export interface WriterThread extends EventEmitter {
  postMessage(message: string): void;
  terminate(): Promise<unknown>;
}

interface WriterOptions {
  readonly events?: StoreEvents | undefined;
  readonly measures?: StoreMeasures | undefined;
  readonly storeClock?: StoreClock;
}

/**
 * The main thread's end of the writer thread. Operations that arrive while a commit is under way form the next one (group
 * commit): they share one fsync, and the event loop never waits for the disk. A promise resolves after the commit. An
 * operation that is not handed over in time is refused; one that the thread does not finish in time is unknown, and `ended` of its fault
 * says later how it ended.
 */
export class Writer {
  private readonly waiting: BoundedQueue<QueuedWrite>;
  /** Batches that the thread has not answered yet; it answers in this order. */
  private handedOver: Batch[] = [];
  private flushScheduled = false;
  private broken: Error | undefined;
  private hasEnded = false;
  private refused = false;
  private readonly events: StoreEvents | undefined;
  private readonly measures: StoreMeasures;
  /** As this thread reads it. */
  readonly storeClock: StoreClock;
  private readonly batches: QueueMeasure;
  private readonly roundTrips: RoundTrips;

  /** On a thread that is ready; a simulation has one of its own. */
  constructor(
    private readonly worker: WriterThread,
    private readonly onBroken: (error: Error) => void,
    private readonly clock: Clock,
    { events, measures = NOT_MEASURED, storeClock = new StoreClock(clock, 0) }: WriterOptions = {},
  ) {
    this.events = events;
    this.measures = measures;
    this.storeClock = storeClock;
    this.waiting = new BoundedQueue('the database file', MAX_WAITING, clock);
    this.roundTrips = measures.roundTrips('sqlite', 'batch');
    this.batches = measures.queue('sqlite', 'writes');
    this.batches.watch(() => this.waiting.length);
    worker.on('message', (results: string) => this.settle(JSON.parse(results) as WriteResults[]));
    worker.on('error', (error) => this.breakDown(error));
    worker.once('exit', () => {
      this.hasEnded = true;
    });
    worker.on('exit', () => this.breakDown(new Error('the writer thread ended')));
  }

  /** Resolves when the database is open for writing and every claim found in it counts as abandoned. */
  static async open(
    dataDir: string,
    { onBroken, onReplaced }: { onBroken: (error: Error) => void; onReplaced: () => void },
    clock: Clock = systemClock,
    { migrations, ...options }: Omit<WriterOptions, 'storeClock'> & { readonly migrations?: URL | undefined } = {},
  ): Promise<Writer> {
    const workerData: WriterThreadData = { dataDir, wallClock: sendTime(clock.now()), migrations: migrations?.href };
    const worker = new Worker(new URL('./writer-thread.js', import.meta.url), { workerData });
    const [{ wasRestored, clockMs, now }] = (await once(worker, 'message')) as [Ready];
    if (wasRestored) onReplaced();
    const storeClock = new StoreClock(clock, clockMs, receiveTime(now));
    return new Writer(worker, onBroken, clock, { ...options, storeClock });
  }

  /** The last commit that needed the disk was refused: it is full, or another program holds the lock. */
  get isRefused(): boolean {
    return this.refused;
  }

  /** Faults are StoreUnavailable: `unchanged` when it was surely not written. */
  write<N extends WriteName>(
    name: N,
    ...[input]: Parameters<WriteOperations[N]>
  ): Promise<ReturnType<WriteOperations[N]>> {
    if (this.broken) return Promise.reject(new StoreUnavailable('unchanged', 'the database is broken', this.broken));
    return new Promise((resolve, reject) => {
      this.waiting.add({ name, input, resolve, reject });
      if (this.waiting.length >= EAGER_BATCH) this.flush();
      else this.scheduleFlush();
    });
  }

  /** True if a time is over by the store's clock, and none past it was written yet. Milliseconds since the epoch. */
  mustPassTime(ms: number): boolean {
    return this.storeClock.writtenMs <= ms && this.storeClock.now() >= ms;
  }

  /** Resolves when a time that is over by the store's clock is over for every later start too. */
  async passTime(ms: number): Promise<void> {
    if (this.mustPassTime(ms)) await this.write('passTime', { pastMs: ms });
  }

  /** Commits what waits, then closes the database. Rejects when the thread does not end: then it may still write. */
  async close(): Promise<void> {
    if (!this.broken) await this.write('ping').catch(() => {});
    this.worker.removeAllListeners('exit');
    this.broken ??= new Error('the database was closed');
    if (this.hasEnded) return;
    // Also if the store is broken: a thread that is terminated with open connections may end the whole process.
    this.worker.postMessage(CLOSE);
    if (await endsWithin(CLOSE_LIMIT_MS, once(this.worker, 'exit'))) return;
    if (await endsWithin(TERMINATE_LIMIT_MS, this.worker.terminate())) return;
    throw new StoreUnavailable('unknown', `the disk did not take the last writes within ${CLOSE_LIMIT_MS} ms`);
  }

  /** After the poll phase, so that all requests of one iteration of the event loop travel together. */
  private scheduleFlush(): void {
    if (this.flushScheduled || !this.mayHandOver()) return;
    this.flushScheduled = true;
    setImmediate(() => {
      this.flushScheduled = false;
      this.flush();
    });
  }

  private flush(): void {
    if (this.waiting.length === 0 || this.broken || !this.mayHandOver()) return;
    const waiting = this.waiting.take(MAX_BATCH);
    this.batches.batch(waiting.length);
    const batch: Batch = {
      waiting,
      roundTrip: this.roundTrips.begin(),
      handedOverAt: this.clock.monotonic(),
      cancelLimit: undefined,
    };
    this.limit(batch);
    this.handedOver.push(batch);
    const message: WriteBatch = { names: waiting.map(({ name }) => name), inputs: waiting.map(({ input }) => input) };
    this.worker.postMessage(JSON.stringify(message));
  }

  private mayHandOver(): boolean {
    const [first] = this.handedOver;
    if (!first) return true;
    return this.handedOver.length < MAX_HANDED_OVER && this.clock.monotonic() - first.handedOverAt < PROMPT_MS;
  }

  private limit(batch: Batch): void {
    batch.cancelLimit?.();
    batch.cancelLimit = this.clock.after(HANDED_OVER_LIMIT_MS, () => this.answerUnknown(batch));
  }

  /** The thread has the batch and may still commit it. */
  private answerUnknown(batch: Batch): void {
    batch.cancelLimit = undefined;
    for (const waiting of batch.waiting) {
      const { reject } = waiting;
      const ended = new Promise<unknown>((resolve, fail) => Object.assign(waiting, { resolve, reject: fail }));
      ended.catch(() => {});
      const message = `the database file took no commit for ${HANDED_OVER_LIMIT_MS} ms`;
      reject(new StoreUnavailable('unknown', message, undefined, ended));
    }
    this.events?.failed(STORE, `it took no commit for ${HANDED_OVER_LIMIT_MS} ms`);
  }

  /** Takes the results of the batches that were one commit. */
  private settle(results: readonly WriteResults[]): void {
    const settled = this.handedOver.splice(0, results.length);
    for (const { cancelLimit } of settled) cancelLimit?.();
    // The thread begins with them now.
    for (const batch of this.handedOver) if (batch.cancelLimit) this.limit(batch);
    const broken = results.flatMap(({ faults }) => faults ?? []).find((fault) => fault?.fault === 'broken');
    // The next batch is on its way before these are answered: the thread commits while the answers are written.
    if (!broken) this.flush();
    for (const [index, batch] of settled.entries()) this.answer(batch, results[index] as WriteResults);
    if (broken) this.breakDown(new StoreUnavailable('unknown', broken.message));
  }

  private answer({ waiting, roundTrip }: Batch, { values, faults, commitsMs = [], clockMs = 0 }: WriteResults): void {
    this.storeClock.wrote(clockMs);
    this.roundTrips.end(roundTrip);
    for (const ms of commitsMs) this.measures.committed(ms);
    for (const [index, { resolve, reject }] of waiting.entries()) {
      const fault = faults?.[index];
      if (fault) reject(exceptionFor(fault));
      else resolve(values[index] as never);
    }
    this.reportEvents(waiting, faults);
  }

  private reportEvents(settled: readonly QueuedWrite[], faults: WriteResults['faults']): void {
    const refusal = faults?.find((fault) => fault?.fault === 'full' || fault?.fault === 'busy');
    if (refusal) {
      this.refused = true;
      this.events?.failed(STORE, exceptionFor(refusal));
    } else if (settled.some(({ name }, index) => NEED_ROOM.has(name) && !faults?.[index])) {
      this.refused = false;
      this.events?.served(STORE);
    }
  }

  private breakDown(error: Error): void {
    if (this.broken) return;
    this.broken = error;
    for (const { waiting, cancelLimit } of this.handedOver.splice(0)) {
      cancelLimit?.();
      for (const { reject } of waiting) reject(new StoreUnavailable('unknown', 'the database failed', error));
    }
    this.waiting.refuseAll(new StoreUnavailable('unchanged', 'the database failed', error));
    this.onBroken(error);
  }
}

function exceptionFor({ fault, message }: WriteFault): Error {
  switch (fault) {
    case 'refused':
      return new Error(`a write was refused: ${message}`);
    case 'full':
      return new StoreUnavailable('unchanged', 'the disk is full', message);
    case 'busy':
      return new StoreUnavailable('unchanged', 'the database file is locked or too slow', message);
    case 'broken':
      return new StoreUnavailable('unknown', 'the database failed', message);
  }
}
