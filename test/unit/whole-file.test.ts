import fs, { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { writeWhole } from '#idempay/cli/output/whole-file.js';
import { keepPayment, newestPayment } from '#idempay/cli/payments/key-file.js';

const KEPT = { idempotencyKey: '0198c0de-0000-7000-8000-000000000017', amount: '100.00', currency: 'USD' };

/**
 * Bug: no key file and no export could be written on exFAT, SMB, virtiofs, 9p and many FUSE systems. Cause: files appear whole by a hard
 * link, which these do not have. Fix: there, and only there, an empty file takes the name, and a rename follows.
 */
describe.each(['EPERM', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP'])('where a hard link fails with %s', (code) => {
  let folder: string;
  let path: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'idempay-whole-'));
    path = join(folder, 'order-17.key');
    // Such a file system cannot be mounted on every machine that runs this.
    vi.spyOn(fs, 'linkSync').mockImplementation(() => {
      throw Object.assign(new Error(`${code}: no hard links`), { code, syscall: 'link' });
    });
    syncBuiltinESMExports();
  });
  afterEach(() => {
    vi.restoreAllMocks();
    syncBuiltinESMExports();
    rmSync(folder, { recursive: true });
  });

  it('a key is kept once, whole, and never replaced', () => {
    expect(keepPayment(path, KEPT)).toBe(true);
    expect(keepPayment(path, { ...KEPT, amount: '1.00' })).toBe(false);
    expect(newestPayment(path).kept).toEqual(KEPT);
    expect(readdirSync(folder)).toEqual(['order-17.key']);
  });

  it('an empty key file, which a command that was killed may leave, is said to have sent nothing', () => {
    writeFileSync(path, '');
    expect(() => newestPayment(path)).toThrow(/is empty: .* sent nothing/);
    expect(keepPayment(path, KEPT)).toBe(false);
  });

  it('an export is written whole, and a file that is there is not replaced', async () => {
    const write = (text: string) => writeWhole(path, async (part) => writeFileSync(part, text));
    await write('whole');
    await expect(write('another')).rejects.toThrow('is there already');
    expect(readFileSync(path, 'utf8')).toBe('whole');
    expect(readdirSync(folder)).toEqual(['order-17.key']);
  });
});

/**
 * Bug: the command that kept its key first paid with it, while the file had the key of another command, and the next run charged that one too.
 * Cause: the draft of a key file had the process id in its name, and two containers that share a folder both have process 1: the second
 * command wrote its key into the draft that the first one then gave the name of the file. Fix: each draft has a name of its own.
 */
it('a command with the same process id writes its key into no draft of another command', () => {
  const folder = mkdtempSync(join(tmpdir(), 'idempay-whole-'));
  const path = join(folder, 'order-17.key');
  const { fsyncSync, linkSync, openSync } = fs;
  let first = '';
  vi.spyOn(fs, 'openSync').mockImplementationOnce((draft, ...more) => {
    first = `${draft}`;
    return openSync(draft, ...more);
  });
  // The second command runs between the writing and the naming of the first draft, and is the later one to name its draft.
  vi.spyOn(fs, 'fsyncSync').mockImplementationOnce((file) => {
    fsyncSync(file);
    expect(keepPayment(path, { ...KEPT, idempotencyKey: '0198c0de-0000-7000-8000-000000000018' })).toBe(false);
  });
  vi.spyOn(fs, 'linkSync')
    .mockImplementationOnce((second, name) => {
      linkSync(first, name);
      linkSync(second, name);
    })
    .mockImplementationOnce(() => {});
  syncBuiltinESMExports();
  try {
    expect(keepPayment(path, KEPT)).toBe(true);
  } finally {
    vi.restoreAllMocks();
    syncBuiltinESMExports();
  }
  expect(newestPayment(path).kept).toEqual(KEPT);
  expect(readdirSync(folder)).toEqual(['order-17.key']);
  rmSync(folder, { recursive: true });
});
