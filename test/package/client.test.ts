import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { packInto } from '../../testkit/packed.js';
import { ROOT } from '../../testkit/programs.js';

const run = promisify(execFile);
const PACKING_MS = 60_000;

const PROGRAM = `import { DeclinedError, Idempay, UnknownOutcomeError } from '@idempay/client';
import { FakeIdempay } from 'idempay/testing';

const fake = new FakeIdempay();
const idempay = new Idempay({ baseUrl: fake.baseUrl, fetch: fake.fetch });
fake.next('pay', { lose: 'answer' });
const { key, attempts } = await idempay.payments.pay({ amount: '1.00', currency: 'EUR' });
const { state } = await idempay.payments.get(key);
fake.next('pay', { decline: 'lost card' });
try {
  await idempay.payments.pay({ amount: '1.00', currency: 'EUR' });
} catch (error) {
  if (error instanceof UnknownOutcomeError) throw error;
  if (error instanceof DeclinedError) console.log(state, attempts, fake.charges.length, error.reason);
}
`;

/** Only what is packed, and without dependencies: neither the client nor the fake service has any. */
describe('the package of the client', () => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'idempay-client-'));
    const { service, client } = await packInto(folder);
    for (const [name, packed] of [
      ['idempay', service],
      ['@idempay/client', client],
    ] as const) {
      const installed = join(folder, 'node_modules', name);
      await mkdir(installed, { recursive: true });
      await run('tar', ['-xzf', packed, '--strip-components=1', '-C', installed]);
    }
    await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  }, PACKING_MS);

  afterAll(() => rm(folder, { recursive: true, force: true }));

  test('needs nothing but itself', async () => {
    const program = `import { Idempay } from '@idempay/client';
      const idempay = new Idempay({ baseUrl: 'http://127.0.0.1:9', deadlineMs: 100 });
      await idempay.payments.pay({ amount: '1', currency: 'EUR' }).catch(({ name }) => console.log(name));`;
    await writeFile(join(folder, 'alone.mjs'), program);
    const { stdout } = await run(process.execPath, ['alone.mjs'], { cwd: folder });
    expect(stdout).toBe('UnavailableError\n');
  });

  test.each([
    ['a browser', ['DOM']],
    ['a browser that iterates', ['DOM', 'DOM.Iterable', 'DOM.AsyncIterable']],
  ])('has types for the strictest TypeScript, with the library of %s', async (_, dom) => {
    await writeFile(join(folder, 'strict.ts'), PROGRAM);
    const compilerOptions = {
      target: 'ES2022',
      lib: ['ES2022', ...dom],
      types: [],
      module: 'NodeNext',
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      // The declarations of the package are checked too.
      skipLibCheck: false,
      noEmit: true,
    };
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['strict.ts'] }));
    const compiler = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
    const { stdout } = await run(process.execPath, [compiler, '-p', folder]).catch((fault) => fault);
    expect(stdout).toBe('');
  });
});
