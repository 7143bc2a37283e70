import { randomUUID } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { runCommand } from '../../testkit/processes/command.js';
import { runCommandHere } from '../../testkit/processes/command-in-process.js';
import { ROOT } from '../../testkit/programs.js';
import { newKeyOf } from '../../testkit/protocol/payment-attempts.js';

const PAYMENT = ['--amount', '100.00', '--currency', 'USD'];
const KEPT = { amount: '100.00', currency: 'USD' };
const DAY_MS = 86_400_000;
const DEAD_KEY = 11;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'idempay-command-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/**
 * The bug: a key file whose unpaid key expired ended with 4 ("go on") for ever, so the documented loop never ended. The cause: the
 * command did not read whether the service has a record of the key, and whether it is certain that nothing was charged.
 */
describe('idempay pay with a key that the service refuses', () => {
  const shared = shareProcessedService(embedded);
  const pay = (...parameters: string[]) => runCommandHere(shared().url, ['pay', ...PAYMENT, ...parameters]);
  const charges = async () => (await shared().processor.charges()).length;
  const keep = (file: string, idempotencyKey: string) =>
    writeFileSync(file, `${JSON.stringify({ idempotencyKey, ...KEPT })}\n`);
  /** The service's record of it is lost, as after a restore. */
  const lostKey = () => newKeyOf(Date.now());
  /** The service is certain that it has expired unpaid. */
  const unusedKey = () => newKeyOf(Date.now() - 2 * DAY_MS);

  it('ends with 11, keeps the file, and pays nothing where it is not certain that nothing was charged', async () => {
    const file = join(folder, 'order-17.key');
    for (const key of [lostKey(), randomUUID()]) {
      keep(file, key);
      const kept = readFileSync(file, 'utf8');
      const before = await charges();
      for (let run = 0; run < 2; run += 1) {
        const { code, stdout, stderr } = await pay('--key-file', file);
        expect([code, stdout]).toEqual([DEAD_KEY, '']);
        expect(stderr).toContain(`look for the key ${key} at the processor`);
      }
      expect(await charges()).toBe(before);
      expect(readdirSync(folder)).toEqual(['order-17.key']);
      expect(readFileSync(file, 'utf8')).toBe(kept);
    }
  });

  it('ends the documented loop', async () => {
    const page = readFileSync(join(ROOT, 'docs', 'reference', 'command-line.md'), 'utf8');
    const [loop] =
      /^until idempay pay --amount 100\.50 .* --key-file donation-7\.key; do\n.*\n.*\ndone$/m.exec(page) ?? [];
    if (loop === undefined) throw new Error('docs/reference/command-line.md has no such loop');
    const kept = { idempotencyKey: lostKey(), amount: '100.50', currency: 'USD' };
    writeFileSync(join(folder, 'donation-7.key'), JSON.stringify(kept));
    const script = `cd '${folder}'; program=("$@"); idempay() { "\${program[@]}" "$@"; }; ${loop}`;
    const { code, stderr } = await runCommand(shared().url, [], {}, ['bash', '-c', script, 'bash']);
    expect(stderr.match(/look for the key \S+ at/g)).toHaveLength(1);
    expect(code).toBe(DEAD_KEY);
  });

  it('as JSON names the error and the key', async () => {
    const key = lostKey();
    const { code, stderr } = await pay('--resume', key, '--json');
    expect(code).toBe(DEAD_KEY);
    expect(JSON.parse(stderr.trimEnd().split('\n')[1] ?? '')).toMatchObject({ error: 'deadKey', idempotencyKey: key });
  });

  it('takes another key by itself only where the service is certain, and pays once with it', async () => {
    const file = join(folder, 'order-17.key');
    const key = unusedKey();
    keep(file, key);
    const before = await charges();
    const first = await pay('--key-file', file, '--json');
    expect(first.code).toBe(0);
    const { idempotencyKey, transactionId } = JSON.parse(first.stdout);
    expect(idempotencyKey).not.toBe(key);
    const again = await pay('--key-file', file, '--json');
    expect(JSON.parse(again.stdout)).toMatchObject({ idempotencyKey, transactionId, replayed: true });
    expect(await charges()).toBe(before + 1);
    expect(readdirSync(folder)).toEqual(['order-17.key', `order-17.key.after-${key}`]);
  });

  it('takes one other key, however many commands run at once', async () => {
    const file = join(folder, 'order-17.key');
    keep(file, unusedKey());
    const before = await charges();
    const parameters = ['pay', ...PAYMENT, '--key-file', file, '--json'];
    const results = await Promise.all(Array.from({ length: 4 }, () => runCommand(shared().url, parameters)));
    expect(results.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    expect(new Set(results.map(({ stdout }) => JSON.parse(stdout).transactionId)).size).toBe(1);
    expect(await charges()).toBe(before + 1);
  });

  it('never takes another key with --resume', async () => {
    const before = await charges();
    const { code, stderr } = await pay('--resume', unusedKey());
    expect([code, stderr]).toEqual([7, expect.stringContaining('without --resume')]);
    expect(await charges()).toBe(before);
  });

  it('refuses another payment also where a later key is kept', async () => {
    const file = join(folder, 'order-17.key');
    keep(file, unusedKey());
    expect(await pay('--key-file', file)).toMatchObject({ code: 0 });
    const other = await runCommandHere(shared().url, ['pay', '--amount', '1', '--currency', 'USD', '--key-file', file]);
    expect(other).toMatchObject({ code: 1, stderr: expect.stringContaining('belongs to the payment of 100.00 USD') });
  });
});

describe('idempay pay --resume with another amount', () => {
  const shared = shareProcessedService(embedded);

  it('shows what was paid, and ends with 8', async () => {
    const paid = await runCommandHere(shared().url, ['pay', ...PAYMENT, '--json']);
    const { idempotencyKey } = JSON.parse(paid.stdout);
    expect(JSON.parse(paid.stdout)).toMatchObject(KEPT);
    const resume = (amount: string) =>
      runCommandHere(shared().url, [
        'pay',
        '--resume',
        idempotencyKey,
        '--amount',
        amount,
        '--currency',
        'usd',
        '--json',
      ]);
    expect(await resume('100')).toMatchObject({ code: 0 });
    const other = await resume('99.00');
    expect(other.code).toBe(8);
    expect(JSON.parse(other.stdout)).toMatchObject({ ...KEPT, replayed: true });
    expect(other.stderr).toContain('has paid 100.00 USD, and not 99.00 usd');
  });
});
