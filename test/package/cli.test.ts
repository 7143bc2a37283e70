import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { installedSize, npm, packedFiles, packInto, USERS_ENVIRONMENT, unheldMaps } from '../../testkit/packed.js';

const FOR_USERS = /^package\/(bin\/idempay-cli\.js|dist\/.+\.js|package\.json|README\.md|LICENSE)$/;
/** Packages that a machine which only pays has no use for. */
const OF_A_SERVICE = ['idempay', '@idempay', 'fastify', '@photostructure', 'pg', 'ioredis', 'undici', 'pino'];

describe('the package of the command, installed in an empty folder', () => {
  const service = shareService(embedded);
  let folder: string;
  let cli: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'idempay-cli-'));
    cli = (await packInto(folder)).cli;
    await writeFile(join(folder, 'package.json'), '{"type":"module"}');
    await npm(['install', '--prefer-offline', '--engine-strict', cli], folder);
  });

  afterAll(() => rm(folder, { recursive: true, force: true }));

  const idempay = (...args: string[]) =>
    promisify(execFile)(join(folder, 'node_modules', '.bin', 'idempay-cli'), args, {
      cwd: folder,
      env: { ...USERS_ENVIRONMENT, IDEMPAY_URL: service.url },
    });

  test('holds what runs, and nothing that only developers use', async () => {
    const files = await packedFiles(cli);
    expect([...files.keys()].filter((path) => !FOR_USERS.test(path))).toEqual([]);
    expect(unheldMaps(files)).toEqual([]);
  });

  test('brings no server, no database and no other package of ours, and less than two and a half megabytes', async () => {
    const modules = await readdir(join(folder, 'node_modules'));
    const ours = await readdir(join(folder, 'node_modules', '@idempay'));
    expect(ours).toEqual(['cli']);
    expect(modules.filter((name) => name !== '@idempay' && OF_A_SERVICE.includes(name))).toEqual([]);
    expect(await installedSize(folder)).toBeLessThan(2_500_000);
  });

  test('pays an order once, and shows, exports and reconciles what was paid', async () => {
    const payment = ['pay', '--reference', 'order-17', '--amount', '100.50', '--currency', 'USD', '--json'];
    const [first, again] = [await idempay(...payment), await idempay(...payment)].map(({ stdout }) =>
      JSON.parse(stdout),
    );
    expect(again).toMatchObject({ transactionId: first.transactionId, replayed: true });
    const listed = await idempay('payments', 'list', '--reference', 'order-17', '--json');
    expect(JSON.parse(listed.stdout)).toMatchObject({ state: 'COMPLETED', transactionId: first.transactionId });

    const today = new Date().toISOString().slice(0, 10);
    await idempay('payments', 'export', '--day', today, '--format', 'csv', '-o', 'today.csv');
    expect(await readFile(join(folder, 'today.csv'), 'utf8')).toContain(first.transactionId);
    await idempay('transactions', 'create', '--from', 'alice', '--to', 'bob', '--amount', '12.34');
    const { stdout } = await idempay('transactions', 'list', '--from', 'alice');
    expect(stdout).toMatch(/^\d+\talice\tbob\t12\.34\tPENDING\t/);

    const { idempotencyKey } = JSON.parse(listed.stdout);
    await writeFile(join(folder, 'statement.csv'), `reference,amount,currency\n${idempotencyKey},100.50,USD\n`);
    const reconciled = await idempay('payments', 'reconcile', 'statement.csv', '--day', today, '--json');
    expect(JSON.parse(reconciled.stdout)).toMatchObject({ agreed: true });
  });

  test('has the name of its command in its help and in its examples', async () => {
    const { stdout } = await idempay();
    expect(stdout).toMatch(/^Usage: idempay-cli <command>\n/);
    expect(stdout).not.toContain('import');
    const help = (await idempay('pay', '--help')).stdout;
    expect(help).toContain('  idempay-cli pay --reference order-17 --amount 100.50 --currency USD\n');
    expect(help).not.toMatch(/idempay pay/);
  });

  test('leaves what needs the stores to the service, whose command has another name', async () => {
    for (const command of ['serve', 'doctor', 'processor', 'keys', 'backup'])
      await expect(idempay(command)).rejects.toMatchObject({ code: 1 });
    await expect(idempay('transactions', 'import', 'today.csv')).rejects.toMatchObject({ code: 1 });
    expect(existsSync(join(folder, 'node_modules', '.bin', 'idempay'))).toBe(false);
  });
});
