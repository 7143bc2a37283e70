import { execFile } from 'node:child_process';
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
  const blocks = codeBlocks(PAGE);
  const blockWith = (text: string) => blocks.find((block) => block.text.includes(text)) as CodeBlock;
  const local = (text: string) =>
    text
      .replaceAll('8092', `${port}`)
      .replaceAll('../my-adapter/', `${folder}/`)
      .replaceAll('http://127.0.0.1:8080', service?.url);

  beforeAll(async () => {
    await requirePython();
    [folder, port] = await Promise.all([mkdtemp(join(tmpdir(), 'idempay-own-adapter-')), freePort()]);
    await writeFile(join(folder, 'adapter.py'), local(blockWith('class Adapter').text));
    await writeFile(join(folder, 'restart.sh'), blockWith('python3 adapter.py >').text);
    await startAdapter();
    service = await startService({ DATA_DIR: folder, PROCESSOR_URL: `http://127.0.0.1:${port}` });
  });
  afterAll(async () => {
    await service?.stop();
    await stopAdapter();
    await rm(folder, { recursive: true, force: true });
  });

  async function startAdapter(): Promise<void> {
    await run('sh', [join(folder, 'restart.sh')]);
    await until('the adapter', 10_000, () => fetch(`http://127.0.0.1:${port}/charges/none`).catch(() => undefined));
  }

  async function stopAdapter(): Promise<void> {
    process.kill(Number(await readFile(join(folder, 'adapter.pid'), 'utf8')));
    await until('its end', 10_000, () =>
      fetch(`http://127.0.0.1:${port}/charges/none`).then(
        () => false,
        () => true,
      ),
    );
    await rm(join(folder, 'adapter.pid'));
  }

  /** Runs a block of the page in bash. */
  const type = async ({ text }: Pick<CodeBlock, 'text'>) => {
    const idempay = `npx() { "$@"; }; idempay() { '${process.execPath}' '${SERVICE}' "$@"; }`;
    const env = { PATH: process.env.PATH, IDEMPAY_URL: service.url };
    return (await run('bash', ['-euc', `${idempay}\n${local(text)}`], { cwd: folder, env })).stdout;
  };

  test('the whole example is on the page', async () => {
    const file = (name: string) => readFile(join(ROOT, 'examples/own-adapter', name), 'utf8');
    expect(blockWith('class Adapter').text).toBe(await file('adapter.py'));
    expect(blockWith('python3 adapter.py >').text).toBe(await file('restart.sh'));
  });

  test('the check finds nothing broken, and skips nothing', async () => {
    const summary = await type(blockWith('--source tok_works'));
    expect(/^(\d+) kept, 0 broken, 0 skipped\.$/m.exec(summary)?.[0]).toBe('32 kept, 0 broken, 0 skipped.');
    expect(await readFile(join(ROOT, PAGE), 'utf8')).toContain('`32 kept, 0 broken, 0 skipped.`');
  });

  test('with a slow card it asks while a charge is at work, and finds the same; the charge outlives a killed adapter', async () => {
    const summary = await type(blockWith('--source tok_slow'));
    expect(summary).toMatch(/^kept\tcharge\tCharged in \d{4} ms/m);
    expect(summary).toContain('\n32 kept, 0 broken, 0 skipped.\n');
    const [, reference = ''] = /^charged\t1\.00 EUR\t(\S+)/m.exec(summary) ?? [];
    const lookUp = blockWith('charges/REFERENCE').text;
    const [, shown = ''] = /^# (.*)$/m.exec(lookUp) ?? [];
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
    await stopAdapter();
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

  const pageOf = (answer: string) => /"url":"([^"]+)"/.exec(answer)?.[1];
  const press = (page: string | undefined, button: string) =>
    fetch(`${page}/${button}`, { method: 'POST', redirect: 'manual' });
  const statusOf = async (order: string) =>
    (await type({ text: blockWith('fetchall').text.replaceAll('order-1', order) })).match(/'(\w+)'\)\]/)?.[1];

  test('a payer who confirms on the page is sent back, and the repeat is paid', async () => {
    const block = blockWith('reference=order-4');
    const page = pageOf(await type(block));
    expect(await (await fetch(`${page}`)).text()).toContain('<button>Confirm</button>');
    expect(await statusOf('order-4')).toBe('pending');
    const back = await press(page, 'confirm');
    expect([back.status, back.headers.get('location')]).toEqual([303, `${service.url}/`]);
    await until('the outcome', 10_000, async () => /TXN\d+/.test(await type(block)) && !pageOf(await type(block)));
    expect(await statusOf('order-4')).toBe('succeeded');
  });

  test('an order that is given up is not charged by a payer who confirms afterwards', async () => {
    const printed = await type(blockWith('reference=order-5'));
    expect(printed).toContain('Payment cancelled.');
    expect((await press(pageOf(printed), 'confirm')).status).toBe(303);
    expect(await statusOf('order-5')).toBe('declined');
  });
});
