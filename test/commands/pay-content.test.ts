import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { todayUtc } from '#idempay/statements/days.js';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { runCommandHere } from '../../testkit/processes/command-in-process.js';

const MONEY = ['--amount', '100.00', '--currency', 'USD'];
const ABOUT = [
  '--description',
  'Blue shoes',
  '--metadata',
  'cart=8812',
  '--metadata',
  'link=a=b',
  '--metadata',
  'note=',
];
const SHOWN = { description: 'Blue shoes', metadata: { cart: '8812', link: 'a=b', note: '' } };
const SOURCE = 'tok_1a2b3c';
const BY_VARIABLE = { IDEMPAY_SOURCE: SOURCE };
const ENDLESS_MS = 600_000;
const KEY = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'idempay-content-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('idempay pay with what the payment is about', () => {
  const shared = shareProcessedService(embedded);
  const idempay = (parameters: readonly string[], environment = {}) =>
    runCommandHere(shared().url, ['pay', ...MONEY, ...parameters], environment);
  const chargesOf = (key: string) => shared().processor.chargesOf(key);

  it.each([
    ['--source', ['--source', SOURCE], {}],
    ['IDEMPAY_SOURCE', [], BY_VARIABLE],
  ])(
    'sends it to the processor, with the source of %s, which it never prints',
    async (_name, parameters, environment) => {
      const { code, stdout, stderr } = await idempay([...ABOUT, ...parameters, '--json'], environment);
      expect(code).toBe(0);
      expect(await chargesOf(JSON.parse(stdout).idempotencyKey)).toMatchObject([{ ...SHOWN, source: SOURCE }]);
      expect(stdout + stderr).not.toContain(SOURCE);
    },
  );

  it('keeps no part of it in a key file, and the same command sends it again', async () => {
    const file = join(folder, 'donation.key');
    const key = await generateKey(shared().url);
    // A command that was killed before its first request leaves such a file.
    writeFileSync(file, JSON.stringify({ idempotencyKey: key, amount: '100.00', currency: 'USD' }));
    expect((await idempay([...ABOUT, '--key-file', file], BY_VARIABLE)).code).toBe(0);
    expect(await chargesOf(key)).toMatchObject([{ ...SHOWN, source: SOURCE }]);

    const own = join(folder, 'own.key');
    expect((await idempay([...ABOUT, '--key-file', own], BY_VARIABLE)).code).toBe(0);
    expect(Object.keys(JSON.parse(readFileSync(own, 'utf8')))).toEqual(['idempotencyKey', 'amount', 'currency']);
  });

  it('names it in the advice to go on without its texts, and --resume sends it', async () => {
    const { processor } = shared();
    await processor.behave({ latencyMs: ENDLESS_MS });
    const unknown = await idempay([...ABOUT, '--deadline', '5'], BY_VARIABLE);
    await processor.restart({ latencyMs: 0 });
    const key = KEY.exec(unknown.stderr)?.[0] ?? '';
    expect([unknown.code, unknown.stderr]).toEqual([
      4,
      expect.stringContaining(
        `idempay pay --resume ${key} --amount 100.00 --currency USD, with the same --source, --description and --metadata as before`,
      ),
    ]);
    expect(unknown.stderr).not.toMatch(/tok_1a2b3c|Blue|8812/);

    // The charge has the first claim's content, whatever a later command says.
    expect((await idempay(['--resume', key, '--description', 'Red shoes'])).code).toBe(0);
    expect(await chargesOf(key)).toMatchObject([{ ...SHOWN, source: SOURCE }]);

    const neverSent = await generateKey(shared().url);
    expect((await idempay([...ABOUT, '--resume', neverSent], BY_VARIABLE)).code).toBe(0);
    expect(await chargesOf(neverSent)).toMatchObject([{ ...SHOWN, source: SOURCE }]);
  });

  it.each([
    ['a name without a value', ['--metadata', 'cart'], /--metadata takes NAME=VALUE.*not 'cart'/],
    ['a value without a name', ['--metadata', '=8812'], /--metadata takes NAME=VALUE/],
    ['a name twice', ['--metadata', 'a=1', '--metadata', 'a=2'], /the name 'a' more than once/],
    ['an empty description', ['--description', ''], /--description has an empty value/],
  ])('charges nothing with %s, and leaves no key file', async (_what, parameters, sentence) => {
    const file = join(folder, 'refused.key');
    const before = (await shared().processor.charges()).length;
    const { code, stdout, stderr } = await idempay([...parameters, '--key-file', file]);
    expect([code, stdout, stderr]).toEqual([1, '', expect.stringMatching(sentence)]);
    expect(existsSync(file)).toBe(false);
    expect((await shared().processor.charges()).length).toBe(before);
  });

  /** Another command with this file may have paid with its key (test/commands/payments.test.ts). */
  it.each([
    ['a card number', ['--source', '4242424242424242'], /looks like a card number/],
    ['a name that no processor takes', ['--metadata', '__proto__=x'], /must not have the name '__proto__'/],
  ])(
    'charges nothing with %s, and the corrected command goes on with the kept key',
    async (_what, parameters, sentence) => {
      const file = join(folder, 'refused.key');
      const before = (await shared().processor.charges()).length;
      const { code, stdout, stderr } = await idempay([...parameters, '--key-file', file]);
      expect([code, stdout, stderr]).toEqual([1, '', expect.stringMatching(sentence)]);
      expect((await shared().processor.charges()).length).toBe(before);
      const { idempotencyKey } = JSON.parse(readFileSync(file, 'utf8'));
      expect((await idempay([...ABOUT, '--key-file', file], BY_VARIABLE)).code).toBe(0);
      expect(await chargesOf(idempotencyKey)).toMatchObject([{ ...SHOWN, source: SOURCE }]);
      expect((await shared().processor.charges()).length).toBe(before + 1);
    },
  );
});

describe('what a payment is about', () => {
  const shared = shareProcessedService(embedded);
  const idempay = (...parameters: string[]) => runCommandHere(shared().url, ['payments', ...parameters]);
  /** Text that a terminal would execute, and text that a spreadsheet would run. */
  const HOSTILE = {
    description: '=1+1\u001b[2J\n\u009b2J\tend',
    metadata: { 'a\u001b]0;x': '\u009b31m', b: 'x;=cmd()' },
  };
  let key: string;
  beforeEach(async () => {
    key = await generateKey(shared().url);
    await pay(shared().url, key, { amount: '5.00', currency: 'EUR', ...HOSTILE });
  });

  it('is in a list and in a record, without what a terminal would execute', async () => {
    const listed = await idempay('list', '--find', key);
    const [description, metadata] = listed.stdout.trimEnd().split('\t').slice(-2);
    expect(description).toBe('=1+1\ufffd[2J\ufffd\ufffd2J\ufffdend');
    expect(metadata).toBe('{"a\\u001b]0;x":"\ufffd31m","b":"x;=cmd()"}');
    const { stdout } = await idempay('get', key);
    expect(stdout).toContain(`\ndescription\t${description}\nmetadata\t${metadata}\n`);
    expect(listed.stdout + stdout).not.toMatch(/[^\P{Cc}\n\t]/u);
    for (const command of [
      ['list', '--find', key],
      ['get', key],
    ]) {
      expect(JSON.parse((await idempay(...command, '--json')).stdout)).toMatchObject(HOSTILE);
    }
  });

  it('is exported in its columns, exact, or so that no spreadsheet runs it', async () => {
    const rowOf = async (...parameters: string[]) => {
      const { stdout, stderr } = await idempay('export', '--day', todayUtc(), '--format', 'csv', ...parameters);
      const rows: Record<string, string>[] = parse(stdout, { bom: true, columns: true });
      const { description, metadata } = rows.find(({ idempotencyKey }) => idempotencyKey === key) ?? {};
      return { cells: [description, metadata], stdout, stderr };
    };
    const exact = await rowOf();
    expect(exact.cells).toEqual([HOSTILE.description, JSON.stringify(HOSTILE.metadata)]);
    expect(exact.stderr).toContain('a spreadsheet may run as a formula');
    const safe = await rowOf('--spreadsheet');
    expect(safe.cells[0]).toBe(`'${HOSTILE.description}`);
    expect(safe.cells[1]).toContain(`x;'=cmd()`);
    expect(safe.stderr).toBe('');
  });

  it('is counted by the warning of an export where only its metadata would be a formula', async () => {
    const stores = await embedded.open();
    try {
      const { url } = await stores.serve();
      await pay(url, await generateKey(url), { amount: '5.00', currency: 'EUR', metadata: { a: 'x;=cmd()' } });
      await pay(url, await generateKey(url), { amount: '5.00', currency: 'EUR', metadata: { a: 'b' } });
      const { stderr } = await runCommandHere(url, ['payments', 'export', '--day', todayUtc(), '--format', 'csv']);
      expect(stderr).toMatch(/^1 rows have a text/m);
    } finally {
      await stores.close();
    }
  });
});
