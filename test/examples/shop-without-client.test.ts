import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { sharePayerEnvironment } from '../../testkit/deployments/payer-environment.js';
import { codeBlocks } from '../../testkit/documents/code-blocks.js';
import { type Gateway, ownJson, ownPage, startGateway } from '../../testkit/servers/gateway.js';
import { until } from '../../testkit/time/until.js';

const run = promisify(execFile);
const PAGE = 'docs/guides/shop.md';
const ADDRESS = 'http://127.0.0.1:8080';

describe(`the Python of ${PAGE}`, { timeout: 60_000 }, () => {
  const environment = sharePayerEnvironment();
  let gateway: Gateway;

  beforeAll(async () => {
    await run('python3', ['--version']).catch((cause) => {
      throw new Error('Python 3 is needed for the samples in Python: apt-get install python3', { cause });
    });
    gateway = await startGateway(environment.url);
    const [sample] = codeBlocks(PAGE).filter(({ language }) => language === 'python');
    const program = `${sample?.text}`.replace(ADDRESS, gateway.url);
    expect(program.trim().split('\n').length).toBeLessThanOrEqual(25);
    await writeFile(join(environment.folder, 'shop.py'), program);
  }, 60_000);
  afterAll(async () => {
    await gateway?.close();
  });
  beforeEach(async () => {
    gateway.use((_request, forward) => forward());
  });

  /** In a process of its own. */
  async function pay(order: string, attempt = 1): Promise<[number, unknown] | null> {
    const call = `import json, shop; print(json.dumps(shop.pay('${order}', ${attempt}, '24.90', 'EUR')))`;
    return JSON.parse((await run('python3', ['-c', call], { cwd: environment.folder })).stdout);
  }
  const paid = [200, expect.stringMatching(/TXN\d+$/)];

  test('charges an order once, from three processes at once, and again later', async () => {
    await environment.behave({ latencyMs: 300 });
    for (const answer of await Promise.all([pay('1'), pay('1'), pay('1')])) expect(answer).toEqual(paid);
    expect(await pay('1')).toEqual(paid);
    expect(await environment.newCharges()).toMatchObject([{ amount: '24.90', currency: 'EUR', status: 'succeeded' }]);
  });

  test('charges once where a gateway answers by itself, and where Idempay is killed', async () => {
    const own = [ownPage(200), ownJson(400), ownPage(502)];
    gateway.use(async (_request, forward) => {
      const answer = await forward();
      return own.shift() ?? answer;
    });
    expect(await pay('2')).toEqual(paid);
    expect(own).toEqual([]);
    expect(await environment.newCharges()).toHaveLength(1);

    gateway.use((_request, forward) => forward());
    await environment.behave({ latencyMs: 300, replyLatencyMs: 300 });
    const answer = pay('3');
    await until('the charge', 10_000, async () => (await environment.newCharges()).length > 1);
    await environment.killService();
    await environment.startService();
    // It may have given up before the service has taken the payment over.
    expect((await answer) ?? (await pay('3'))).toEqual(paid);
    expect(await environment.newCharges()).toHaveLength(2);
  });

  test('charges again after a decline only with the next attempt', async () => {
    await environment.behave({ declineRate: 1 });
    expect(await pay('4')).toEqual([402, expect.objectContaining({ message: expect.stringContaining('declined') })]);
    await environment.behave({ declineRate: 0 });
    expect(await pay('4')).toEqual([402, expect.anything()]);
    expect(await pay('4', 3)).toEqual([422, expect.anything()]);
    expect(await environment.newCharges()).toHaveLength(1);
    expect(await pay('4', 2)).toEqual(paid);
    expect((await environment.newCharges()).map(({ status }) => status)).toEqual(['declined', 'succeeded']);
  });
});
