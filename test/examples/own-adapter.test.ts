import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CodeBlock, codeBlocks } from '../../testkit/documents/code-blocks.js';
import { requirePython } from '../../testkit/processes/python.js';
import { type Service, startService } from '../../testkit/processes/service.js';
import { ROOT, SERVICE } from '../../testkit/programs.js';
import { freePort } from '../../testkit/servers/server-process.js';
import { until } from '../../testkit/time/until.js';

const run = promisify(execFile);
const PAGE = 'docs/guides/own-adapter.md';
const WARN = 40;

/** Follows the page in its order, as its reader does, in an empty folder. */
describe(`what ${PAGE} says, step by step`, () => {
  let folder: string;
  let port: number;
  let service: Service;
  let adapter: { readonly child: ChildProcess; readonly ended: Promise<unknown> };
  const blocks = codeBlocks(PAGE);
  const blockWith = (text: string) => blocks.find((block) => block.text.includes(text)) as CodeBlock;
  const local = (text: string) => text.replaceAll('8092', `${port}`);

  beforeAll(async () => {
    await requirePython();
    [folder, port] = await Promise.all([mkdtemp(join(tmpdir(), 'idempay-own-adapter-')), freePort()]);
    await writeFile(join(folder, 'adapter.py'), local(blockWith('class Adapter').text));
    await startAdapter();
    service = await startService({ DATA_DIR: folder, PROCESSOR_URL: `http://127.0.0.1:${port}` });
  });
  afterAll(async () => {
    await service?.stop();
    adapter?.child.kill('SIGKILL');
    await adapter?.ended;
    await rm(folder, { recursive: true, force: true });
  });

  async function startAdapter(): Promise<void> {
    const child = spawn('python3', ['adapter.py'], { cwd: folder, stdio: 'ignore' });
    adapter = { child, ended: once(child, 'close') };
    await until('the adapter', 10_000, () => fetch(`http://127.0.0.1:${port}/charges/none`).catch(() => undefined));
  }

  /** Runs a block of the page in bash. */
  const type = async ({ text }: Pick<CodeBlock, 'text'>) => {
    const idempay = `npx() { "$@"; }; idempay() { '${process.execPath}' '${SERVICE}' "$@"; }`;
    const env = { PATH: process.env.PATH, IDEMPAY_URL: service.url };
    return (await run('bash', ['-euc', `${idempay}\n${local(text)}`], { cwd: folder, env })).stdout;
  };

  test('the whole example is on the page', async () => {
    const program = await readFile(join(ROOT, 'examples/own-adapter/adapter.py'), 'utf8');
    expect(blockWith('class Adapter').text).toBe(program);
  });

  test('the check finds nothing broken, and skips nothing', async () => {
    const summary = await type(blockWith('--source tok_works'));
    expect(/^(\d+) kept, 0 broken, 0 skipped\.$/m.exec(summary)?.[0]).toBe('16 kept, 0 broken, 0 skipped.');
    expect(await readFile(join(ROOT, PAGE), 'utf8')).toContain('`16 kept, 0 broken, 0 skipped.`');
  });

  test('with a slow card it asks while a charge is at work, and finds the same; the charge outlives a killed adapter', async () => {
    const summary = await type(blockWith('--source tok_slow'));
    expect(summary).toMatch(/^kept\tcharge\tCharged in \d{4} ms/m);
    expect(summary).toContain('\n16 kept, 0 broken, 0 skipped.\n');
    const [, reference = ''] = /^charged\t1\.00 EUR\t(\S+)/m.exec(summary) ?? [];
    const lookUp = blockWith('charges/REFERENCE').text;
    const [, shown = ''] = /^# (.*)$/m.exec(lookUp) ?? [];
    adapter.child.kill('SIGKILL');
    await adapter.ended;
    await startAdapter();
    const found = await type({ text: lookUp.replace('REFERENCE', reference) });
    expect(found.replace(/ch_\d+/, 'ch_1')).toBe(shown.replace('REFERENCE', reference));
  });

  test('two payments of one order are one charge, with the card and the order of the first', async () => {
    const printed = await type(blockWith('tok_other'));
    const ids = [...printed.matchAll(/TXN\d+/g)].map(([id]) => id);
    expect([ids.length, new Set(ids).size]).toEqual([2, 1]);
    const block = blockWith('fetchall');
    const [, shown = ''] = /^# (.*)$/m.exec(block.text) ?? [];
    const withoutKeys = (text: string) => text.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, 'key').trim();
    expect(withoutKeys(await type(block))).toBe(withoutKeys(shown));
  });

  test('a decline ends with 3, and the next attempt is paid', async () => {
    expect(await type(blockWith('--attempt 2'))).toMatch(/exit code 3\n[\s\S]*TXN\d+/);
  });

  test('a payment waits for an adapter that is started again, and is charged once', async () => {
    adapter.child.kill('SIGINT');
    await adapter.ended;
    const before = service.logs.length;
    const paying = type({ text: 'idempay pay --reference order-3 --amount 24.90 --currency EUR' });
    await until('the attempt that finds no adapter', 10_000, () =>
      service.logs.slice(before).some(({ level }) => level >= WARN),
    );
    await startAdapter();
    expect(await paying).toMatch(/TXN\d+/);
    const charged = await type({ text: blockWith('fetchall').text.replace('order-1', 'order-3') });
    expect(charged.match(/succeeded/g)).toHaveLength(1);
  });
});
