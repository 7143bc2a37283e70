import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Idempay } from '@idempay/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { codeBlocks } from '../../testkit/documents/code-blocks.js';
import { requirePython } from '../../testkit/processes/python.js';
import { type Gateway, type GatewayAnswer, ownJson, ownPage, startGateway } from '../../testkit/servers/gateway.js';

const run = promisify(execFile);
const PAGE = 'docs/guides/refunds.md';

type Answer = readonly [status: number, body: unknown] | null;

const inPython = async (folder: string, parameters: readonly string[]): Promise<Answer> =>
  JSON.parse((await run('python3', ['refund.py', ...parameters], { cwd: folder })).stdout);

/** The exit code says how it ended, as the page promises. */
async function inShell(folder: string, parameters: readonly string[]): Promise<Answer> {
  const refunding = run('bash', ['-c', '. ./refund.sh; refund "$@"', 'refund', ...parameters], { cwd: folder });
  const { code, stdout } = await refunding.then(
    (ended) => ({ code: 0, ...ended }),
    (fault) => fault as { code: number; stdout: string },
  );
  if (code === 75) return null;
  const [, status, body = ''] = /^(\d{3}) (.*)\n$/s.exec(stdout) ?? [];
  expect(code).toBe(status === '200' ? 0 : 1);
  return [Number(status), JSON.parse(body)];
}

describe.each([
  ['python', 'refund.py', inPython],
  ['sh', 'refund.sh', inShell],
] as const)(`the loop of ${PAGE} in %s`, (language, file, start) => {
  const service = shareService(embedded);
  let gateway: Gateway;
  let folder: string;

  beforeAll(async () => {
    await requirePython();
    gateway = await startGateway(service.url);
    folder = await mkdtemp(join(tmpdir(), 'idempay-refund-'));
    const block = codeBlocks(PAGE).find(({ language: each, text }) => each === language && /\brefund\(/.test(text));
    const { port } = new URL(gateway.url);
    const program = `${block?.text}`.replace('"127.0.0.1", 8080', `"127.0.0.1", ${port}`);
    await writeFile(join(folder, file), program.replace('127.0.0.1:8080', `127.0.0.1:${port}`));
  });
  afterAll(async () => {
    await gateway?.close();
    await rm(folder, { recursive: true, force: true });
  });

  const refund = (order: string, name: string, amount: string) => start(folder, [order, name, amount, 'EUR']);

  test('gives a line back once, although replies are lost, and then no more than is left', async () => {
    const { payments } = new Idempay({ baseUrl: service.url });
    const order = `order-${language}-1`;
    const { key } = await payments.pay({ amount: '59.90', currency: 'EUR' }, { reference: order });
    const lost: GatewayAnswer[] = [ownPage(502), ownJson(400), { ...ownPage(200), headers: { idempay: '1' } }];
    let requests = 0;
    gateway.use(async (_request, forward) => {
      requests += 1;
      const answer = await forward();
      return lost.shift() ?? answer;
    });
    const repeated = [200, expect.stringMatching(/^Transaction ID: TXN\d+$/)];
    expect([await refund(order, 'line-2', '12.50'), requests]).toEqual([repeated, 4]);
    expect(await refund(order, 'line-2', '12.50')).toEqual(repeated);
    const refused = [422, expect.objectContaining({ message: expect.stringContaining('47.40 EUR left') })];
    expect(await refund(order, 'line-3', '50.00')).toEqual(refused);
    expect(await payments.refunds(key)).toMatchObject([{ amount: '12.50', refund: { name: 'line-2' } }]);
    expect(await payments.get(key)).toMatchObject({ refunded: '12.50' });
  });
});
