// Loaded with `--import` into a measured process: its main thread notes what can let a request wait, with its time, in the file
// `TAIL_LOG.<process>`, which `tail.ts` reads. Times are those of the machine's monotonic clock in milliseconds, which all processes share.
// The service itself is not changed for it.
import { appendFileSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { isMainThread, Worker } from 'node:worker_threads';

const { TAIL_LOG = '', DATABASE_URL, DATA_DIR } = process.env;
/** What is shorter is no cause. */
const SHORTEST_MS = 0.5;
const TICK_MS = 1;
const WRITE_EVERY_MS = 1_000;

const base = Number(process.hrtime.bigint()) / 1e6 - performance.now();
const log = `${TAIL_LOG}.${process.pid}`;
let lines: string[] = [];

function note(what: string, from: number, to: number): void {
  if (to - from >= SHORTEST_MS) lines.push(`${what}\t${base + from}\t${base + to}\n`);
}

function write(): void {
  if (lines.length > 0) appendFileSync(log, lines.join(''));
  lines = [];
}

function watchCollections(): void {
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      const { startTime, duration } = entry;
      const { kind } = (entry as unknown as { readonly detail: { readonly kind: number } }).detail;
      const what = kind === constants.NODE_PERFORMANCE_GC_MINOR ? 'young collection' : 'full collection';
      note(what, startTime, startTime + duration);
    }
  }).observe({ entryTypes: ['gc'] });
}

/** A tick that comes late tells that a turn of the event loop was long, or that the thread was ready to run and had no processor. */
function watchTurns(): void {
  let last = performance.now();
  let waitedMs = waitForProcessorMs();
  setInterval(() => {
    const [now, waited] = [performance.now(), waitForProcessorMs()];
    const hadNone = waited - waitedMs > (now - last - TICK_MS) / 2;
    note(hadNone ? 'no free processor' : 'turn of the event loop', last + TICK_MS, now);
    [last, waitedMs] = [now, waited];
  }, TICK_MS).unref();
}

/** How long this thread was ready to run while the processors had others (`/proc/[pid]/task/[tid]/schedstat` of Linux, nanoseconds). */
function waitForProcessorMs(): number {
  const [, waitedNs] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8').split(' ');
  return Number(waitedNs) / 1e6;
}

/**
 * The writer thread tells how long its commits took. A commit moves the log into the file now and then: then the file changes while it goes
 * on. `writer`: from when a batch was handed over until its results were there.
 */
function watchWriter(file: string): void {
  const handedOver: number[] = [];
  let changedAt = 0;
  const { postMessage, emit } = Worker.prototype;
  Worker.prototype.postMessage = function (...values) {
    handedOver.push(performance.now());
    return postMessage.apply(this, values);
  };
  Worker.prototype.emit = function (name, ...values: never[]) {
    const [text] = values as unknown[];
    if (name === 'message' && typeof text === 'string') {
      const to = performance.now();
      const results = JSON.parse(text) as readonly { readonly commitsMs: readonly number[] }[];
      const commitMs = results.flatMap(({ commitsMs }) => commitsMs).reduce((sum, ms) => sum + ms, 0);
      const { mtimeMs } = statSync(file);
      note(mtimeMs === changedAt ? 'commit' : 'commit with a checkpoint', to - commitMs, to);
      changedAt = mtimeMs;
      for (const _ of results) note('writer', handedOver.shift() ?? to, to);
    }
    return emit.call(this, name, ...values);
  };
}

/** From the call to its answer, so a turn of the event loop and a collection are a part of it. */
async function watchServers(): Promise<void> {
  const [{ default: pg }, { Redis }] = await Promise.all([import('pg'), import('ioredis')]);
  timed(pg.Client.prototype as never, 'query', 'PostgreSQL');
  timed(pg.Pool.prototype as never, 'connect', 'wait for a connection');
  timed(Redis.prototype as never, 'sendCommand', 'Redis');
}

function timed(owner: Record<string, (...values: unknown[]) => unknown>, name: string, what: string): void {
  const inner = owner[name] as (...values: unknown[]) => unknown;
  owner[name] = function (...values: unknown[]) {
    const from = performance.now();
    const result = inner.apply(this, values);
    if (result instanceof Promise) {
      const ended = () => note(what, from, performance.now());
      result.then(ended, ended);
    }
    return result;
  };
}

// A worker thread loads this file too.
if (isMainThread) {
  watchCollections();
  watchTurns();
  if (DATABASE_URL) await watchServers();
  else if (DATA_DIR) watchWriter(join(DATA_DIR, 'idempay.sqlite'));
  setInterval(write, WRITE_EVERY_MS).unref();
  process.on('exit', write);
}
