import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { expectImported, importAndKill } from '../../testkit/client/imports.js';
import { describeDeployments, embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { runCommand } from '../../testkit/processes/command.js';

const IMPORT = ['transactions', 'import'];
const SMALL_BATCHES = ['--batch-rows', '20'];

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'idempay-import-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('idempay transactions import', () => {
  const shared = shareService(embedded);
  const idempay = (...parameters: string[]) => runCommand(shared.url, [...IMPORT, ...parameters]);
  const rowsFrom = async (account: string) => {
    const { stdout } = await runCommand(shared.url, ['transactions', 'list', '--from', account, '--json']);
    return stdout
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line));
  };
  function given(name: string, content: string): string {
    const file = join(folder, name);
    writeFileSync(file, content);
    return file;
  }

  it('creates the rows of CSV, rejects the others into a file, ends with 9, and does nothing the next time', async () => {
    const file = given(
      'a.csv',
      'fromAccount,toAccount,amount,status\ncsv,b,12345678901.2345,FLAGGED\ncsv,b,1.00001,\ncsv,b,100.50,\n',
    );
    expect(await idempay(file)).toMatchObject({
      code: 9,
      stdout: `created\t2\nrejected\t1\nrejectedRows\t${file}.rejected.ndjson\n`,
    });
    expect(await rowsFrom('csv')).toMatchObject([{ amount: 12345678901.2345, status: 'FLAGGED' }, { amount: 100.5 }]);
    expect(JSON.parse(readFileSync(`${file}.rejected.ndjson`, 'utf8'))).toEqual({
      line: 3,
      reason: expect.stringContaining('4 after the point'),
      row: 'csv,b,1.00001,',
    });
    const again = await idempay(file, '--json');
    expect([again.code, JSON.parse(again.stdout)]).toEqual([9, expect.objectContaining({ created: 2, rejected: 1 })]);
    expect(again.stderr).toContain('nothing was sent now');
    expect(await rowsFrom('csv')).toHaveLength(2);

    writeFileSync(file, 'fromAccount,toAccount,amount\ncsv,b,3\n');
    expect(await idempay(file)).toMatchObject({ code: 1, stderr: expect.stringContaining('Another content') });
  });

  it('judges with --dry-run and sends nothing', async () => {
    const file = given('dry.ndjson', '{"fromAccount":"dry","toAccount":"b","amount":1}\n{"fromAccount":"dry"}\n');
    const { code, stdout, stderr } = await idempay(file, '--dry-run');
    expect([code, stderr]).toEqual([9, '1 rows would be created, 1 rejected. Nothing was sent.\n']);
    expect(JSON.parse(stdout)).toMatchObject({ line: 2, reason: expect.stringContaining('toAccount') });
    expect(existsSync(`${file}.import`)).toBe(false);
    expect(await rowsFrom('dry')).toEqual([]);
  });

  it('goes on after the service was away', async () => {
    const file = given('away.csv', 'fromAccount,toAccount,amount\naway,b,1\n');
    const away = ['--state', join(folder, 'state'), '--deadline', '1'];
    const { code, stderr } = await runCommand('http://127.0.0.1:1', [...IMPORT, file, ...away]);
    // At the deadline a connection may just be tried.
    expect([4, 5]).toContain(code);
    expect(stderr).toContain('Run the same command again');
    // At another address its keys mean nothing.
    expect(await idempay(file, ...away)).toMatchObject({ code: 1, stderr: expect.stringContaining('begun at') });
  });

  it('refuses a batch in doubt after the life of its key', async () => {
    const file = given('old.csv', 'fromAccount,toAccount,amount\nold,b,1\n');
    const stores = await embedded.open();
    const service = await stores.serve();
    await service.stop();
    const parameters = [...IMPORT, file, '--deadline', '1'];
    expect([4, 5]).toContain((await runCommand(service.url, parameters)).code);
    const late = await runCommand(service.url, [...parameters, '--key-life', '1']);
    expect(late).toMatchObject({ code: 4, stderr: expect.stringContaining('--assume-not-created') });
    await stores.close();
  });

  it.each([
    ['a file that is not there', ['/nowhere/rows.csv'], /ENOENT/],
    ['a file of unknown format', ['rows.txt'], /--format csv/],
    ['a batch that is too large', ['rows.csv', '--batch-rows', '1001'], /from 1 to 1000/],
    ['both assumptions', ['rows.csv', '--assume-created', '--assume-not-created'], /cannot be used with/],
  ])('refuses %s with a sentence', async (_what, parameters, sentence) => {
    const { code, stderr } = await idempay(...parameters);
    expect([code, stderr]).toEqual([1, expect.stringMatching(sentence)]);
    expect(stderr).not.toMatch(/^\s+at /m);
  });
});

describeDeployments('an import', (deployment) => {
  const shared = shareService(deployment);

  it('of 2,000 rows, killed twice, creates each good row once and rejects each broken one once', async () => {
    await importAndKill(shared.url, join(folder, 'rows.csv'), { rows: 2_000, kills: 2, more: SMALL_BATCHES });
    await expectImported(shared.url, join(folder, 'rows.csv'), 2_000);
  });
});
