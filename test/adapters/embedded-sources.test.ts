import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { expect, onTestFinished, test } from 'vitest';
import { openForWriting } from '#idempay/stores/embedded/file/sqlite.js';
import { migrate } from '#idempay/stores/embedded/migrate.js';
import { createPaymentSources } from '#idempay/stores/embedded/payments/payment-sources.js';
import { ROOT } from '../../testkit/programs.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';

const BACKUP_THREAD = join(ROOT, 'dist/stores/embedded/file/backup-thread.js');
const MANY = 20_000;
const AT_ONCE = 80;
const MARK = 'tokSECRET';

/**
 * While the source was a column of the payments' table, 1 to 7 of this number of sources were still in the file, also with `secure_delete`.
 */
test('no byte of a source that was erased stays in the file', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-sources-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, 'idempay.sqlite');
  const database = openForWriting(path);
  migrate(database);
  database.exec('PRAGMA synchronous = OFF');
  const sources = createPaymentSources(database);
  const { fraction } = seededRandom(seedFrom('SOURCES_SEED', 1));
  const kept = new Map<string, string>();
  const eraseSome = (left: number) => {
    while (kept.size > left) {
      const key = [...kept.keys()][Math.floor(fraction() * kept.size)] ?? '';
      expect(sources.find(key)).toBe(kept.get(key));
      sources.erase(key);
      expect(sources.find(key)).toBeNull();
      kept.delete(key);
    }
  };
  for (let begun = 0; begun < MANY; begun += 20) {
    database.exec('BEGIN');
    for (let n = begun; n < begun + 20; n += 1) {
      const own = `${MARK}${n}${'z'.repeat(Math.floor(fraction() * 480))}`;
      // Every third source is longer, because it has an address to return to.
      const more = n % 3 === 0 ? ` https://shop.example/${MARK}${'y'.repeat(Math.floor(fraction() * 960))}` : '';
      const [key, source] = [randomUUID(), `${own}${more}`];
      sources.keep(key, source);
      kept.set(key, source);
    }
    eraseSome(fraction() * AT_ONCE);
    database.exec('COMMIT');
  }
  const last = [...kept.values()].join('').split(MARK).length - 1;
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  const found = async () => (await readFile(path, 'latin1')).split(MARK).length - 1;
  expect(await found()).toBe(last);
  eraseSome(0);
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  expect(await found()).toBe(0);
  database.close();
});

/** Bug: a restored backup kept the first seven sources. Cause: VACUUM INTO ran without `secure_delete`, and divided the first page. */
test('no byte of a source that was erased stays in a file that was restored from a backup of before', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-sources-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const [path, copy] = [join(folder, 'idempay.sqlite'), join(folder, 'copy.sqlite')];
  const database = openForWriting(path);
  migrate(database);
  const sources = createPaymentSources(database);
  const keys = Array.from({ length: AT_ONCE }, randomUUID);
  for (const key of keys) sources.keep(key, `${MARK}${key}`);
  await new Promise<void>((resolve, reject) => {
    const thread = new Worker(BACKUP_THREAD, { workerData: { source: path, target: copy } });
    thread.on('error', reject).on('exit', () => resolve());
  });
  database.close();
  const restored = openForWriting(copy);
  const others = createPaymentSources(restored);
  for (const key of keys) {
    expect(others.find(key)).toBe(`${MARK}${key}`);
    others.erase(key);
  }
  restored.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  restored.close();
  expect(await readFile(copy, 'latin1')).not.toContain(MARK);
});
