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
