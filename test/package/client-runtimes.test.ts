import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import {
  compileProgram,
  compileShopTests,
  installAlone,
  npm,
  packInto,
  USERS_ENVIRONMENT,
} from '../../testkit/packed.js';
import { startChromium } from '../../testkit/servers/chromium.js';

const run = promisify(execFile);

const VERSIONS = ['20', '22', '24'];

/**
 * Pays twice with one reference, reads a list, and verifies the example of Standard Webhooks, whose only fault is its age. The same in Node.js
 * and in a page; prints what it found.
 */
const PROGRAM = `import { Idempay, InvalidRequestError, verifyWebhook } from '@idempay/client';

const webhook = new Headers({
  'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  'webhook-timestamp': '1614265330',
  'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
});

export async function payTwice(baseUrl, reference) {
  const { payments, transactions } = new Idempay({ baseUrl });
  const first = await payments.pay({ amount: '2.00', currency: 'EUR' }, { reference });
  const again = await payments.pay({ amount: '2.00', currency: 'EUR' }, { reference });
  const { transaction } = await transactions.create({ fromAccount: 'ann', toAccount: 'bob', amount: '1.00' });
  const { state } = await payments.get(first.key);
  let listed = 0;
  for await (const each of transactions.search({ to: 'bob' })) if (each.transactionId === transaction.transactionId) listed += 1;
  const refused = await payments.pay({ amount: 'x', currency: 'EUR' }).catch((error) => error instanceof InvalidRequestError);
  const verified = verifyWebhook(webhook, '{"test": 2432232314}', ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw']);
  const why = await verified.catch((error) => error.why);
  return [first.transactionId === again.transactionId, again.replayed, state, listed, refused, why].join(' ');
}
`;
const PRINTED = 'true true COMPLETED 1 true too-old';

describe('the package of the client, installed in an empty folder', () => {
  const service = shareService(embedded);
  let folder: string;
  let packed: Awaited<ReturnType<typeof packInto>>;
  const runOn = async (version: string, ...args: string[]) => {
    const program = ['--yes', '--prefer-offline', `node@${version}`, ...args];
    return (await run('npx', program, { cwd: folder, env: USERS_ENVIRONMENT })).stdout;
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'idempay-runtimes-'));
    packed = await packInto(folder);
    await installAlone(packed.client, folder);
    await writeFile(join(folder, 'pay-twice.js'), PROGRAM);
    await writeFile(
      join(folder, 'main.js'),
      `import { payTwice } from './pay-twice.js';
      console.log(process.versions.node.split('.')[0], await payTwice(...process.argv.slice(2)));`,
    );
  });

  afterAll(() => rm(folder, { recursive: true, force: true }));

  test.each(VERSIONS)('pays once on Node.js %s', async (version) => {
    const printed = await runOn(version, 'main.js', service.url, `order-${version}`);
    expect(printed).toBe(`${version} ${PRINTED}\n`);
  });

  test('is bundled whole, and pays once from a page in Chromium', async () => {
    const bundle = await bundled(folder, 'pay-twice.js');
    expect(bundle.imports).toEqual([]);
    expect(bundle.code).not.toMatch(/\bnode:|\brequire\(|\bprocess\./);
    const browser = await startChromium();
    try {
      const page = await browser.newPage();
      // On the service's own origin, so that the page asks it as a page behind a proxy does.
      const address = `${service.url}/page-of-the-test`;
      await page.route(address, (route) => route.fulfill({ contentType: 'text/html', body: '<title>Shop</title>' }));
      await page.route(`${address}.js`, (route) =>
        route.fulfill({ contentType: 'text/javascript', body: bundle.code }),
      );
      await page.goto(address);
      // As text, because vitest rewrites an import in a function.
      const paidTwice = `import('${address}.js').then(({ payTwice }) => payTwice('${service.url}', 'order-page'))`;
      expect(await page.evaluate(paidTwice)).toBe(PRINTED);
    } finally {
      await browser.close();
    }
  });

  describe('with the package of the service next to it', () => {
    let tests: readonly string[];

    beforeAll(async () => {
      await npm(['install', '--prefer-offline', '--engine-strict', packed.service], folder);
      tests = await compileShopTests(folder);
    });

    test.each([
      ['commonjs', 'node16', 'node16'],
      ['commonjs', 'commonjs', 'node10'],
      ['commonjs', 'esnext', 'bundler'],
      ['module', 'node16', 'node16'],
      ['module', 'esnext', 'bundler'],
    ] as const)(
      'has types for TypeScript 5.6 in a package of type %s, with module %s and moduleResolution %s',
      async (type, module, moduleResolution) => {
        const compiler = ['npx', '--yes', '--prefer-offline', '--package=typescript@5.6.3', '--', 'tsc'];
        expect(await compileProgram(compiler, folder, { type, module, moduleResolution })).toBe('');
      },
    );

    test.each(VERSIONS)("runs a shop's own tests against the fake service on Node.js %s", async (version) => {
      const printed = await runOn(version, '--test', '--test-reporter=tap', ...tests);
      expect(printed).toMatch(/^# pass [1-9]\d$/m);
      expect(printed).toMatch(/^# fail 0$/m);
    });
  });
});

/** One file with the module and all that it imports, as vite makes it for a browser. */
async function bundled(root: string, entry: string): Promise<{ code: string; imports: readonly string[] }> {
  const { build } = await import('vite');
  const built = await build({
    configFile: false,
    root,
    logLevel: 'silent',
    build: { write: false, lib: { entry, formats: ['es'] } },
  });
  const [chunk, ...more] = [built].flat().flatMap((each) => ('output' in each ? each.output : []));
  if (chunk?.type !== 'chunk' || more.length > 0) throw new Error('The bundle is not one file.');
  return { code: chunk.code, imports: [...chunk.imports, ...chunk.dynamicImports] };
}
