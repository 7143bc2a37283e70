import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Idempay } from '@idempay/client';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { expectImported, importAndKill } from '../../testkit/client/imports.js';
import { describeDeployments, embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { runCommand, startCommand } from '../../testkit/processes/command.js';
import { runCommandHere } from '../../testkit/processes/command-in-process.js';
import { freePort } from '../../testkit/servers/server-process.js';
import { pause, until } from '../../testkit/time/until.js';

const IMPORT = ['transactions', 'import'];
const SMALL_BATCHES = ['--batch-rows', '20'];

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'idempay-import-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('idempay transactions import', () => {
  const shared = shareService(embedded);
  const idempay = (...parameters: string[]) => runCommandHere(shared.url, [...IMPORT, ...parameters]);
  const rowsFrom = async (account: string) => {
    const { stdout } = await runCommandHere(shared.url, ['transactions', 'list', '--from', account, '--json']);
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
    expect((await idempay(file)).stdout).toMatch(/^createdNow\t0\ncreatedBefore\t2\nrejected\t1\nrejectedRows\t/);
    expect(await rowsFrom('csv')).toHaveLength(2);

    writeFileSync(file, 'fromAccount,toAccount,amount\ncsv,b,3\n');
    expect(await idempay(file)).toMatchObject({ code: 1, stderr: expect.stringContaining('Another content') });
  });

  // Bug: the errors of csv-parse were known by a prefix of their codes, and a quote after text has another. Such a line ended the import in a stack
  // trace, after rows were created, at every run. Fix: they are known by their class.
  it('rejects lines with misplaced quotes, and goes on', async () => {
    const lines = ['fromAccount,toAccount,amount,size', 'quotes,b,1,', 'Smith "Bob" Robert,b,2,'];
    const file = given(
      'quotes.csv',
      [...lines, 'quotes,b,3,5" x 3" screen', 'quotes, "b",4,', 'quotes,b,5,'].join('\r'),
    );
    const { code, stdout, stderr } = await idempay(file, '--ignore', 'size', '--json');
    expect([code, stderr, JSON.parse(stdout)]).toMatchObject([9, '', { created: 2, rejected: 3 }]);
    expect(await rowsFrom('quotes')).toMatchObject([{ amount: 1 }, { amount: 5 }]);
  });

  it('leaves out columns of any name, as its own error says', async () => {
    const file = given('columns.csv', 'fromAccount,toAccount,amount,"Fee, EUR",,,-x\ncolumns,b,1,2,3,4,5\n');
    const { code, stderr } = await idempay(file, '--dry-run', '--ignore', '-x', '--ignore', 'other');
    expect([code, stderr]).toEqual([1, expect.stringMatching(/leave them out: --ignore '-x,other,"Fee, EUR",'\n$/)]);
    const names = ['--ignore', '-x,other,"Fee, EUR",'];
    expect(await idempay(file, ...names)).toMatchObject({ code: 0, stdout: 'created\t1\nrejected\t0\n' });
    const wrong = await idempay(file, '--ignore', 'a "b"');
    expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining(`--ignore '"Fee, EUR","Size ""L"""'`)]);
  });

  /**
   * Bug: `1.500` became 1.5 in a file whose other amounts, such as `100,50`, were rejected for their decimal comma, so it is a thousand and a half
   * there. Cause: each row is judged alone. Fix: the dry run and the end of an import warn of such a file.
   */
  it('warns of thousands in a file whose decimals follow a comma, with --dry-run and at the end', async () => {
    const rows = ['comma,b,"1.234,50"', 'comma,b,1.500', 'comma,b,"100,50"'];
    const file = given('comma.csv', `fromAccount,toAccount,amount\n${rows.join('\n')}\n`);
    const warning =
      'Check the amounts: 2 with a decimal comma or several points, such as 100,50, were rejected, and 1 such as 1.500 were read as 1.5.';
    expect((await idempay(file, '--dry-run')).stderr).toContain(warning);
    expect(await idempay(file)).toMatchObject({ code: 9, stderr: expect.stringContaining(warning) });
    for (const [name, content] of [
      ['points.csv', 'comma,b,1.500\ncomma,b,100.50\ncomma,b,abc\n'],
      ['only-commas.csv', 'comma,b,1.50\ncomma,b,"100,50"\n'],
    ] as const) {
      const other = given(name, `fromAccount,toAccount,amount\n${content}`);
      expect((await idempay(other, '--dry-run')).stderr).not.toContain('Check the amounts');
    }
  });

  /** Bug: `1.500` became 1.5 without a warning in a file that has no decimals at all. Cause: only a decimal comma led to one. */
  it.each([
    ['several points', 'comma,b,1.500\ncomma,b,1.250.000\ncomma,b,0.50\n', '1 with a decimal comma or several points'],
    ['several points and a comma', 'comma,b,1.500\ncomma,b,"1.250.000,5"\n', '1 with a decimal comma'],
    [
      'three digits after each point',
      'comma,b,1.500\ncomma,b,20\ncomma,b,999.999\n',
      '2 such as 1.500 were read as 1.5',
    ],
    ['a point that is before decimals', 'comma,b,1.500\ncomma,b,0.500\n', undefined],
    ['four digits before a point', 'comma,b,1.500\ncomma,b,1234.500\n', undefined],
  ])('warns of thousands only if a file proves them or cannot exclude them: %s', async (_what, content, warning) => {
    const file = given('thousands.csv', `fromAccount,toAccount,amount\n${content}`);
    const { stderr } = await idempay(file, '--dry-run');
    if (warning === undefined) expect(stderr).not.toContain('Check the amounts');
    else expect(stderr).toContain(`Check the amounts: ${warning}`);
  });

  it('judges with --dry-run and sends nothing', async () => {
    const file = given('dry.ndjson', '{"fromAccount":"dry","toAccount":"b","amount":1}\n{"fromAccount":"dry"}\n');
    const { code, stdout, stderr } = await idempay(file, '--dry-run');
    expect([code, stderr]).toEqual([9, '1 rows would be created, 1 rejected. Nothing was sent.\n']);
    expect(JSON.parse(stdout)).toMatchObject({ line: 2, reason: expect.stringContaining('toAccount') });
    expect(existsSync(`${file}.import`)).toBe(false);
    expect(await rowsFrom('dry')).toEqual([]);
  });

  it('goes on after the service was down', async () => {
    const file = given('away.csv', 'fromAccount,toAccount,amount\naway,b,1\n');
    const away = ['--state', join(folder, 'state'), '--deadline', '1'];
    const { code, stderr } = await runCommandHere('http://127.0.0.1:1', [...IMPORT, file, ...away]);
    // At the deadline a connection may just be tried.
    expect([4, 5]).toContain(code);
    expect(stderr).toContain('Run the same command again');
    // At another address its keys mean nothing.
    expect(await idempay(file, ...away)).toMatchObject({ code: 1, stderr: expect.stringContaining('begun at') });
  });

  it('goes on with its own file of rejected rows only', async () => {
    const file = given('own.csv', 'fromAccount,toAccount,amount\nown,b,1\nown,b\n');
    const [state, other] = [
      ['--state', join(folder, 'own-state'), '--deadline', '1'],
      given('other.txt', 'of another\n'),
    ];
    await runCommandHere('http://127.0.0.1:1', [...IMPORT, file, ...state]);
    const refused = await runCommandHere('http://127.0.0.1:1', [...IMPORT, file, ...state, '--rejected', other]);
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('Move it away') });
    expect(readFileSync(other, 'utf8')).toBe('of another\n');
  });

  it('has one state for a file, whatever names lead to it, and refuses it changed', async () => {
    const file = given('linked.csv', 'fromAccount,toAccount,amount\nlinked,b,1\n');
    const link = join(folder, 'link.csv');
    symlinkSync(file, link);
    expect(await idempay(link)).toMatchObject({ code: 0, stdout: 'created\t1\nrejected\t0\n' });
    expect(existsSync(`${link}.import`)).toBe(false);
    expect((await idempay(file)).stderr).toContain('nothing was sent now');
    expect(await rowsFrom('linked')).toHaveLength(1);
  });

  it('refuses to go on with a file that has changed', async () => {
    const file = given('changed.csv', 'fromAccount,toAccount,amount\nchanged,b,1\n');
    await runCommandHere('http://127.0.0.1:1', [
      ...IMPORT,
      file,
      '--state',
      join(folder, 'changed'),
      '--deadline',
      '1',
    ]);
    writeFileSync(file, 'fromAccount,toAccount,amount\nchanged,b,1\nchanged,b,2\n');
    const refused = await runCommandHere('http://127.0.0.1:1', [...IMPORT, file, '--state', join(folder, 'changed')]);
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('not the same any more') });
  });

  it('takes a pipe, with a state file only, and goes on when the same bytes come again', async () => {
    const pipe = join(folder, 'pipe');
    await promisify(execFile)('mkfifo', [pipe]);
    const state = [
      '--format',
      'csv',
      '--state',
      join(folder, 'pipe.state'),
      '--rejected',
      join(folder, 'pipe.rejected'),
    ];
    const throughPipe = (parameters: string[]) =>
      Promise.all([idempay(pipe, ...parameters), writeFile(pipe, 'fromAccount,toAccount,amount\npiped,b,1\n')]);
    expect((await throughPipe(['--format', 'csv']))[0]).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('--state'),
    });
    expect((await throughPipe(state))[0]).toMatchObject({ code: 0, stdout: 'created\t1\nrejected\t0\n' });
    expect((await throughPipe(state))[0].stderr).toContain('nothing was sent now');
    expect(await rowsFrom('piped')).toHaveLength(1);
  });

  it('that cannot keep its state, or a copy of its input, says which option or setting names another place', async () => {
    const file = given('unkept.csv', 'fromAccount,toAccount,amount\nunkept,b,1\n');
    const nowhere = join(folder, 'nowhere', 'state');
    const noState = await idempay(file, '--state', nowhere);
    expect(noState).toMatchObject({ code: 1, stderr: expect.stringMatching(/cannot be written \(ENOENT\).* --state/) });
    const parameters = ['transactions', 'import', '-', '--format', 'csv', '--state', join(folder, 'state')];
    // Node.js reads TMPDIR of the process, not of `process.env`.
    const noCopy = await runCommand(shared.url, parameters, { TMPDIR: join(folder, 'nowhere') });
    expect(noCopy).toMatchObject({ code: 1, stderr: expect.stringMatching(/cannot be written \(ENOENT\).* TMPDIR/) });
    expect(await rowsFrom('unkept')).toEqual([]);
  });

  it('interrupted, says how to go on, and goes on', async () => {
    const rows = Array.from({ length: 2_000 }, (_, row) => `interrupted,b,${row + 1}\n`);
    const file = given('interrupted.csv', `fromAccount,toAccount,amount\n${rows.join('')}`);
    const parameters = [...IMPORT, file, ...SMALL_BATCHES];
    const importing = startCommand(shared.url, parameters);
    await until('some rows are there', 10_000, async () => (await rowsFrom('interrupted')).length > 0);
    importing.interrupt();
    const { code, stderr } = await importing.result;
    expect([4, 5]).toContain(code);
    expect(stderr).toContain('Run the same command again');
    expect(await runCommandHere(shared.url, parameters)).toMatchObject({
      code: 0,
      stdout: 'created\t2000\nrejected\t0\n',
    });
    expect(await rowsFrom('interrupted')).toHaveLength(2_000);
  });

  it('does not send its first batch again after the life of a key', async () => {
    const file = given('old.csv', 'fromAccount,toAccount,amount\nold,b,1\n');
    const stores = await embedded.open();
    onTestFinished(() => stores.close());
    const settings = { PORT: String(await freePort()) };
    const url = `http://127.0.0.1:${settings.PORT}`;
    const parameters = [...IMPORT, file, '--deadline', '1'];
    expect([4, 5]).toContain((await runCommandHere(url, parameters)).code);
    await stores.serve(settings);
    const late = await runCommandHere(url, [...parameters, '--key-life', '1']);
    expect(late).toMatchObject({ code: 4, stderr: expect.stringContaining('--assume-not-created') });
    expect(await runCommandHere(url, parameters)).toMatchObject({ code: 0, stdout: 'created\t1\nrejected\t0\n' });
  });

  it('after the life of its keys leaves the batch in doubt to the user, and creates nothing twice', async () => {
    const stores = await embedded.open();
    onTestFinished(() => stores.close());
    const { url } = await stores.serve({ IDEMPOTENCY_TTL_SECONDS: '1' });
    const rows = Array.from({ length: 2_000 }, (_, row) => `forgotten,b,${row + 1}\n`);
    const parameters = [...IMPORT, given('f.csv', `fromAccount,toAccount,amount\n${rows.join('')}`), ...SMALL_BATCHES];
    const { transactions } = new Idempay({ baseUrl: url });
    const importing = startCommand(url, parameters);
    await until('some batches are there', 10_000, async () => (await transactions.ids()).length > 100);
    importing.kill();
    await importing.result;
    await pause(2_500);

    const doubtful = await runCommandHere(url, parameters);
    const [, firstLine] = /lines (\d+) to/.exec(doubtful.stderr) ?? [];
    expect([doubtful.code, doubtful.stderr]).toEqual([4, expect.stringContaining('--assume-not-created')]);
    // The header is line 1.
    const isCreated = (await transactions.ids()).length > Number(firstLine) - 2;
    const end = await runCommandHere(url, [...parameters, isCreated ? '--assume-created' : '--assume-not-created']);
    expect(end).toMatchObject({ code: 0, stdout: 'created\t2000\nrejected\t0\n' });
    expect(await transactions.ids()).toHaveLength(2_000);
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
