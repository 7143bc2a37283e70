import type { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type Chunks, ReadAheadBytes, streamReadAhead } from '#idempay/http/read-ahead.js';

const CHUNK_BYTES = 64 * 1024;
const MEBIBYTE = 1024 * 1024;
/** As a connection has it that the client does not read from. */
const NOTHING_TAKEN = 0;

/** So many chunks, each read at once, from a snapshot that a request may wait for. */
class ChunksInMemory implements Chunks {
  read = 0;
  open = true;
  wanted = false;

  constructor(private readonly count: number) {}

  async next() {
    if (!this.open) throw new Error('a chunk was read from a snapshot that is closed');
    this.read += 1;
    const last = this.read === this.count;
    if (last) this.close();
    return { chunk: Buffer.alloc(CHUNK_BYTES, 'x'), last };
  }

  isWanted() {
    return this.wanted;
  }

  close() {
    this.open = false;
  }
}

/**
 * Bug: a few clients that stopped reading denied lists to all others, and kept the write-ahead log from being checkpointed. Cause:
 * a snapshot was held for as long as its client took to read. Fix: a few megabytes are read ahead, and a client that holds a
 * snapshot and stalls is cut off, sooner when a request waits.
 */
describe('a body that is read ahead of its client', () => {
  let allBytes: ReadAheadBytes;
  let streams: Readable[];

  beforeEach(() => {
    vi.useFakeTimers();
    allBytes = new ReadAheadBytes(8 * MEBIBYTE);
    streams = [];
  });
  afterEach(() => {
    for (const stream of streams) stream.destroy();
    vi.useRealTimers();
  });

  function open(chunks: Chunks): Readable {
    const stream = streamReadAhead(Buffer.alloc(CHUNK_BYTES, 'x'), chunks, allBytes);
    streams.push(stream);
    return stream;
  }

  /** A body of so many chunks. */
  function opened(count: number) {
    const chunks = new ChunksInMemory(count);
    return { chunks, stream: open(chunks) };
  }

  /** A client that begins to read, takes so much, and no more. */
  async function take(stream: Readable, bytes: number): Promise<void> {
    let taken = stream.read(0)?.length ?? 0;
    while (taken < bytes) {
      await settled();
      const chunk = stream.read();
      if (!chunk) return;
      taken += chunk.length;
    }
    await settled();
  }

  /** Until all that may be read has been read: no time passes. */
  async function settled(): Promise<void> {
    for (let turn = 0; turn < 400; turn += 1) await Promise.resolve();
    await vi.advanceTimersByTimeAsync(0);
  }

  const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

  test('of three megabytes holds no snapshot while the client takes nothing', async () => {
    const { chunks, stream } = opened(48);
    await take(stream, NOTHING_TAKEN);
    expect(chunks).toMatchObject({ open: false, read: 48 });
    await pass(20_000);
    expect(stream.destroyed).toBe(false);
    let bytes = 0;
    stream.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
    const end = new Promise((resolve) => stream.on('end', resolve));
    await settled();
    await end;
    expect(bytes).toBe(49 * CHUNK_BYTES);
  });

  test('is read ahead up to four megabytes, and on when the client takes some of it', async () => {
    const { chunks, stream } = opened(1_000);
    await take(stream, NOTHING_TAKEN);
    const readAhead = chunks.read;
    expect(readAhead * CHUNK_BYTES).toBeGreaterThan(3.5 * MEBIBYTE);
    expect(readAhead * CHUNK_BYTES).toBeLessThan(4.5 * MEBIBYTE);
    await take(stream, MEBIBYTE);
    expect(chunks.read).toBeGreaterThan(readAhead + 10);
    expect(chunks.open).toBe(true);
  });

  test('of all clients together is read ahead up to a bound, and then chunk by chunk', async () => {
    let read = 0;
    for (const { chunks, stream } of Array.from({ length: 10 }, () => opened(60))) {
      await take(stream, NOTHING_TAKEN);
      read += chunks.read;
    }
    expect(read * CHUNK_BYTES).toBeLessThan(9 * MEBIBYTE);
    for (const stream of streams) stream.destroy();
    await pass(0);
    expect(allBytes.isFull()).toBe(false);
    const { chunks, stream } = opened(60);
    await take(stream, NOTHING_TAKEN);
    expect(chunks.open).toBe(false);
  });

  test('is cut off within two seconds of a stall when a request waits for its snapshot', async () => {
    const { chunks, stream } = opened(1_000);
    await take(stream, 6 * MEBIBYTE);
    chunks.wanted = true;
    await pass(1_250);
    expect(stream.destroyed).toBe(false);
    await pass(750);
    expect(stream.destroyed).toBe(true);
    expect(chunks.open).toBe(false);
  });

  test('is cut off when a request waits and the client takes a chunk now and then', async () => {
    const { chunks, stream } = opened(1_000);
    chunks.wanted = true;
    for (let time = 0; time < 100 && !stream.destroyed; time += 1) {
      await take(stream, 1);
      await pass(1_250);
    }
    expect(stream.destroyed).toBe(true);
    expect(chunks.open).toBe(false);
  });

  test('is not cut off when a request waits and the client keeps reading', async () => {
    const { chunks, stream } = opened(1_000);
    chunks.wanted = true;
    for (let second = 0; second < 30; second += 1) {
      await take(stream, MEBIBYTE / 2);
      await pass(1_000);
    }
    expect(stream.destroyed).toBe(false);
  });

  test('keeps its snapshot for ten seconds of a stall when no request waits', async () => {
    const { stream } = opened(1_000);
    await take(stream, MEBIBYTE);
    await pass(9_500);
    expect(stream.destroyed).toBe(false);
    await pass(1_000);
    expect(stream.destroyed).toBe(true);
  });

  test('is not cut off because the store is slow', async () => {
    const chunks = new ChunksInMemory(1_000);
    let answer: (value: Awaited<ReturnType<ChunksInMemory['next']>>) => void = () => {};
    chunks.next = () =>
      new Promise((resolve) => {
        answer = resolve;
      });
    chunks.wanted = true;
    const stream = open(chunks);
    stream.resume();
    await pass(60_000);
    expect(stream.destroyed).toBe(false);
    const end = new Promise((resolve) => stream.on('end', resolve));
    answer({ chunk: Buffer.from(']'), last: true });
    await settled();
    await end;
  });

  test('gives its memory back when the client takes nothing of it for half a minute', async () => {
    const { stream } = opened(48);
    await take(stream, NOTHING_TAKEN);
    await pass(31_000);
    expect(stream.destroyed).toBe(true);
  });
});
