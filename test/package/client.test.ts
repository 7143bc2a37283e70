import { execFile } from 'node:child_process';
import { statSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, sep } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { compileProgram, installAlone, packedFiles, packInto, unheldMaps } from '../../testkit/packed.js';
import { ROOT } from '../../testkit/programs.js';

const run = promisify(execFile);
const FOR_USERS = /^package\/(dist\/.+\.(js|d\.ts)|(dist\/required\/)?package\.json|README\.md|LICENSE)$/;

const COMPILER = [process.execPath, join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc')];

describe('the package of the client, installed in an empty folder', () => {
  let folder: string;
  let client: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'idempay-client-'));
    const packed = await packInto(folder);
    client = packed.client;
    await installAlone(client, folder);
    // Next to it the service as it is packed, without dependencies, because the types of the fake service need none.
    const service = join(folder, 'node_modules', 'idempay');
    await mkdir(service);
    await run('tar', ['-xzf', packed.service, '--strip-components=1', '-C', service]);
  });

  afterAll(() => rm(folder, { recursive: true, force: true }));

  test('brings no other package, and less than a megabyte', async () => {
    const alone = await mkdtemp(join(folder, 'alone-'));
    await installAlone(client, alone);
    const modules = join(alone, 'node_modules');
    const files = (await readdir(modules, { recursive: true })).filter((file) =>
      statSync(join(modules, file)).isFile(),
    );
    expect(files.filter((file) => !file.startsWith(join('@idempay', 'client', sep)))).toEqual(['.package-lock.json']);
    expect(files.reduce((bytes, file) => bytes + statSync(join(modules, file)).size, 0)).toBeLessThan(1_000_000);
  });

  test('holds what runs, and refers to no file that it does not hold', async () => {
    const files = await packedFiles(client);
    expect([...files.keys()].filter((file) => !FOR_USERS.test(file))).toEqual([]);
    expect(unheldMaps(files)).toEqual([]);
  });

  test('can be published, for everybody', async () => {
    const {
      name,
      private: isPrivate,
      publishConfig,
    } = JSON.parse(await readFile(join(folder, 'node_modules', '@idempay', 'client', 'package.json'), 'utf8'));
    expect({ name, isPrivate, publishConfig }).toEqual({
      name: '@idempay/client',
      publishConfig: { access: 'public' },
    });
  });

  test.each([
    ['a browser', ['DOM']],
    ['a browser that iterates', ['DOM', 'DOM.Iterable', 'DOM.AsyncIterable']],
  ])('has types for the strictest TypeScript, with the library of %s', async (_, dom) => {
    expect(
      await compileProgram(COMPILER, folder, { type: 'module', module: 'NodeNext', lib: ['ES2022', ...dom] }),
    ).toBe('');
  });

  test.each([
    ['node16', 'node16'],
    ['nodenext', 'nodenext'],
    ['commonjs', 'bundler'],
    ['esnext', 'bundler'],
  ])('has types for a CommonJS package, with module %s and moduleResolution %s', async (module, moduleResolution) => {
    expect(await compileProgram(COMPILER, folder, { type: 'commonjs', module, moduleResolution })).toBe('');
  });

  test('has the same classes for require as for import', async () => {
    const program = `const { DeclinedError } = require('@idempay/client');
      import('@idempay/client').then((client) => console.log(DeclinedError === client.DeclinedError));`;
    await writeFile(join(folder, 'required.cjs'), program);
    const { stdout, stderr } = await run(process.execPath, ['required.cjs'], { cwd: folder });
    expect(stdout + stderr).toBe('true\n');
  });

  test('is named by the package of the service, which exports nothing itself', async () => {
    for (const statement of ["require('idempay')", "import('idempay')"]) {
      const failed = run(process.execPath, ['-e', statement], { cwd: folder });
      await expect(failed).rejects.toThrow("Import '@idempay/client' to call the service, or 'idempay/testing'");
    }
  });
});
