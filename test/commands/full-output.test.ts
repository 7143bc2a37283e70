import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { FULL_OUTPUT, runCommand } from '../../testkit/processes/command.js';

const PAYMENT = ['--amount', '100.00', '--currency', 'USD'];
const OUTPUT_FAILED = 12;
const READER_GONE = 141;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'idempay-command-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/**
 * The bug: with standard output on a full disk a command that had charged or created something ended with 1, "nothing was done". The
 * cause: the fault of the stream was thrown as a fault of the program, whose exit code is 1.
 */
describe('a command whose standard output is a full disk', () => {
  const shared = shareProcessedService(embedded);
  const onFullDisk = (...parameters: string[]) => runCommand(shared().url, parameters, {}, FULL_OUTPUT);
  const charges = async () => (await shared().processor.charges()).length;

  it('pays, tells the outcome on standard error, keeps its key file, and ends with 12', async () => {
    const file = join(folder, 'order-17.key');
    const before = await charges();
    const paid = await onFullDisk('pay', ...PAYMENT, '--key-file', file);
    expect(paid).toMatchObject({ code: OUTPUT_FAILED, stderr: expect.stringMatching(/^transactionId\tTXN\d+$/m) });
    expect(readdirSync(folder)).toEqual(['order-17.key']);
    const again = await runCommand(shared().url, ['pay', ...PAYMENT, '--key-file', file]);
    expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining('replayed\ttrue') });
    expect(await charges()).toBe(before + 1);
  });

  it('creates, changes and deletes a transaction, tells it on standard error, and ends with 12', async () => {
    const created = await onFullDisk('transactions', 'create', '--from', 'a', '--to', 'b', '--amount', '1');
    const [, id = ''] = /^transactionId\t(\d+)$/m.exec(created.stderr) ?? [];
    const changed = await onFullDisk('transactions', 'set-status', id, 'FLAGGED');
    expect((await runCommand(shared().url, ['transactions', 'get', id])).stdout).toContain('status\tFLAGGED');
    const deleted = await onFullDisk('transactions', 'delete', id, '--yes');
    expect([created, changed, deleted].map(({ code }) => code)).toEqual([OUTPUT_FAILED, OUTPUT_FAILED, OUTPUT_FAILED]);
    expect(deleted.stderr).toContain('deleted\ttrue');
  });

  it('imports, tells it on standard error, and ends with 12', async () => {
    const file = join(folder, 'rows.csv');
    writeFileSync(file, 'fromAccount,toAccount,amount\nfull,disk,1\n');
    const imported = await onFullDisk('transactions', 'import', file);
    expect(imported).toMatchObject({ code: OUTPUT_FAILED, stderr: expect.stringContaining('created\t1') });
  });

  /**
   * Bug: a key whose secret could not be printed stayed valid, and with a reader that had ended nothing said so: a script that failed behind
   * a pipe added one with each retry. Fix: the key is revoked again.
   */
  it.each([
    ['on a full disk', OUTPUT_FAILED, FULL_OUTPUT],
    ['for a reader that has ended', READER_GONE, ['bash', '-c', 'set -o pipefail; "$@" | true', 'bash']],
  ])('adds no API key whose secret nobody has: %s', async (_, code, launcher) => {
    const file = join(folder, 'keys');
    const parameters = ['keys', 'add', 'shop', '--scopes', 'payments:read', '--file', file];
    const added = await runCommand(shared().url, parameters, {}, launcher);
    expect([added.code, added.stderr]).toEqual([code, expect.stringContaining('nobody has its secret')]);
    expect(added.stderr).not.toMatch(/idem_\w/);
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual([]);
  });

  it('does not pay without a key file when the key cannot be told on standard error either', async () => {
    const before = await charges();
    const launcher = ['sh', '-c', 'exec "$@" 2> /dev/full', 'sh'];
    expect(await runCommand(shared().url, ['pay', ...PAYMENT], {}, launcher)).toMatchObject({ code: 1, stdout: '' });
    expect(await charges()).toBe(before);
    const kept = ['pay', ...PAYMENT, '--key-file', join(folder, 'order.key')];
    expect(await runCommand(shared().url, kept, {}, launcher)).toMatchObject({ code: 0 });
    expect(await charges()).toBe(before + 1);
  });

  it('exports nothing as a whole, and says so', async () => {
    const exported = await onFullDisk('transactions', 'export', '--format', 'csv');
    expect([exported.code, exported.stderr]).toEqual([OUTPUT_FAILED, expect.stringContaining('only a part')]);
  });
});
