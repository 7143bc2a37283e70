import { copyFileSync } from 'node:fs';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { followCertificate, readCertificate } from '#idempay/http/connections/certificate-files.js';
import { openRereadFile } from '#idempay/platform/reread-file.js';
import { startRereading } from '#idempay/platform/rereading.js';
import { hangReadsOf, LIBUV_THREADS } from '../../testkit/hung-pipe.js';
import { makeCertificates } from '../../testkit/servers/certificates.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 5_000;

/** Lets the end of a read be noted. */
const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve));

async function setUp() {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const folder = await mkdtemp(join(tmpdir(), 'idempay-reread-'));
  onTestFinished(() => rm(folder, { recursive: true }));

  function hang(path: string): void {
    const release = hangReadsOf(path);
    onTestFinished(release);
  }

  async function follow(name: string) {
    const path = join(folder, name);
    await writeFile(path, 'old');
    const problems: string[] = [];
    const file = openRereadFile(
      path,
      (text) => text,
      (problem) => problems.push(problem),
    );
    onTestFinished(() => file.close());
    return { path, file, problems };
  }

  /** Does work that needs a thread of the pool. */
  async function useThread(): Promise<void> {
    let isDone = false;
    const work = stat(folder).then(() => {
      isDone = true;
    });
    await until('a free thread', DEADLINE_MS, () => isDone);
    await work;
  }

  return { follow, hang, useThread };
}

/**
 * Bug: a file on a network mount that hung stopped the service: log writes, name look-ups and WebCrypto waited for a thread.
 * Cause: each second began one more read, which kept one more of the four threads of libuv's pool.
 * Fix: one read of a file is under way at a time, and two of all files.
 */
test('files whose reads hang leave threads to others', async () => {
  const { follow, hang, useThread } = await setUp();
  // More files than there are threads.
  for (let index = 0; index <= LIBUV_THREADS; index += 1) hang((await follow(`file-${index}`)).path);
  vi.advanceTimersByTime(10_000);
  await useThread();
});

test('a certificate whose files hang leaves threads to others', async () => {
  const { hang, useThread } = await setUp();
  const certificates = await makeCertificates();
  onTestFinished(() => certificates.remove());
  const files = { certFile: `${certificates.certificate}.used`, keyFile: `${certificates.key}.used` };
  copyFileSync(certificates.certificate, files.certFile);
  copyFileSync(certificates.key, files.keyFile);
  const log = { info: () => {}, error: () => {} };
  onTestFinished(followCertificate(files, readCertificate(files), () => {}, log));
  for (const path of Object.values(files)) hang(path);
  vi.advanceTimersByTime(10_000);
  await useThread();
});

test('a file whose read hangs does not keep another one from being read again', async () => {
  const { follow, hang } = await setUp();
  const [hung, changed] = [await follow('hung'), await follow('changed')];
  hang(hung.path);
  vi.advanceTimersByTime(1_000);
  await writeFile(changed.path, 'new');
  vi.advanceTimersByTime(1_000);
  await until('the new content', DEADLINE_MS, () => changed.file.current === 'new');
  expect(hung.file.current).toBe('old');
});

test('the reads of many files take their turns, so that each file is read again', async () => {
  const { follow } = await setUp();
  const files = await Promise.all(['a', 'b', 'c', 'd', 'e'].map(follow));
  await Promise.all(files.map(({ path }) => writeFile(path, 'new')));
  vi.advanceTimersByTime(1_000);
  await until('each new content', DEADLINE_MS, () => files.every(({ file }) => file.current === 'new'));
});

/**
 * Bug: while two files hung, an API key that was revoked in a third one stayed good, and the log said nothing. Fix: each file that nobody could
 * read for ten seconds is told of.
 */
test('files that hang are told of once, and so is a file that waits for them', async () => {
  const { follow, hang } = await setUp();
  const files = await Promise.all(['hung', 'hung too', 'waits'].map(follow));
  for (const { path } of files.slice(0, 2)) hang(path);
  vi.advanceTimersByTime(9_000);
  expect(files.flatMap(({ problems }) => problems)).toEqual([]);
  vi.advanceTimersByTime(20_000);
  const told = ['the file could not be read for 10 seconds, so a file system may hang'];
  expect(files.map(({ problems }) => problems)).toEqual([told, told, told]);
});

test('a file that is read each second is not told of', async () => {
  const { follow } = await setUp();
  const { file, path, problems } = await follow('read');
  for (const text of Array.from({ length: 12 }, (_, second) => `content ${second}`)) {
    await writeFile(path, text);
    vi.advanceTimersByTime(1_000);
    await until('the new content', DEADLINE_MS, () => file.current === text);
  }
  expect(problems).toEqual([]);
});

test('a read does not begin before the one before has ended, and none begins after the end', async () => {
  await setUp();
  const ends: (() => void)[] = [];
  const end = startRereading(
    () => new Promise((resolve) => ends.push(resolve)),
    () => {},
  );
  onTestFinished(end);
  vi.advanceTimersByTime(10_000);
  expect(ends).toHaveLength(1);
  ends[0]?.();
  await nextTurn();
  vi.advanceTimersByTime(1_000);
  expect(ends).toHaveLength(2);
  ends[1]?.();
  await nextTurn();
  end();
  vi.advanceTimersByTime(10_000);
  expect(ends).toHaveLength(2);
});
