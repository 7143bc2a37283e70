import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core';
import { publint } from 'publint';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { linkPackages } from '../../testkit/linked-packages.js';
import { packedFiles, packInto, USERS_ENVIRONMENT } from '../../testkit/packed.js';
import { ROOT } from '../../testkit/programs.js';

const run = promisify(execFile);
const NAMES = ['service', 'client', 'cli'] as const;
/** As a publisher would fill it in; the name is reserved. */
const REPOSITORY = 'git+https://git.example/shop/idempay.git';
/** Where nothing listens. */
const NO_REGISTRY = 'http://127.0.0.1:9';
const LINK = /\]\(([^)\s]+)\)/g;
/** A text that names a page by its path in the repository. Comments of the build stay as they are. */
const NAMED_PATH = /^(?!\s*(?:\*|\/[*/])).*docs\/[a-z]+\/[a-z-]+\.md(?!'\))/gm;

describe('the packages as they would be published', () => {
  let folder: string;
  let packed: Awaited<ReturnType<typeof packInto>>;
  let version: string;
  const files = new Map<string, ReadonlyMap<string, string>>();
  const fileOf = (name: (typeof NAMES)[number], path: string) => files.get(name)?.get(`package/${path}`) ?? '';

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'idempay-published-'));
    packed = await packInto(folder, REPOSITORY);
    for (const name of NAMES) files.set(name, await packedFiles(packed[name]));
    ({ version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')));
  });

  afterAll(() => rm(folder, { recursive: true, force: true }));

  test.each(NAMES)('have exports that all tools find: %s', async (name) => {
    const bytes = await readFile(packed[name]);
    const tarball = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
    const { messages } = await publint({ pack: { tarball }, strict: true });
    expect(messages).toEqual([]);
  });

  test.each(['service', 'client'] as const)('have types for every way to import them: %s', async (name) => {
    const tarball = createPackageFromTarballData(await readFile(packed[name]));
    // `idempay` itself is a program: its import fails, and says what to import.
    const checked = await checkPackage(tarball, name === 'service' ? { excludeEntrypoints: ['.'] } : {});
    expect(checked.types).toMatchObject({ kind: 'included' });
    expect('problems' in checked && checked.problems).toEqual([]);
  });

  test.each(NAMES)('are accepted by npm publish, which asks no registry for a dry run: %s', async (name) => {
    const options = ['--dry-run', '--registry', NO_REGISTRY, '--fetch-retries', '0', '--userconfig', '/dev/null'];
    const { stdout } = await run('npm', ['publish', packed[name], ...options], { cwd: folder, env: USERS_ENVIRONMENT });
    expect(stdout).toBe(`+ ${JSON.parse(fileOf(name, 'package.json')).name}@${version}\n`);
  });

  test('name their repository, and nothing that only developers use', () => {
    for (const [name, directory] of [['service'], ['client', 'client'], ['cli', 'cli']] as const) {
      const manifest = JSON.parse(fileOf(name, 'package.json'));
      expect(manifest).toMatchObject({
        license: 'MIT',
        version,
        repository: { type: 'git', url: REPOSITORY, ...(directory && { directory }) },
        homepage: `https://git.example/shop/idempay/blob/v${version}/README.md`,
      });
      expect(manifest.keywords.length).toBeGreaterThan(3);
      for (const member of ['private', 'scripts', 'workspaces', 'devDependencies'])
        expect(manifest).not.toHaveProperty(member);
    }
  });

  // Bug: a package that was made after a run of the tests had the console with the checks of developers, and names of files of this machine.
  // Cause: vitest sets NODE_ENV, and vite takes the value that it finds. Fix: the build of the console sets it.
  test('have no name of a file of this machine', () => {
    const found = [...files.values()].flatMap((held) => [...held].filter(([, text]) => text.includes(ROOT)));
    expect(found.map(([path]) => path)).toEqual([]);
  });

  test('have pages whose links lead to files of this version', () => {
    const pages = [...files.values()].flatMap((held) =>
      [...held].filter(([path]) => /^package\/[A-Z]+\.md$/.test(path)),
    );
    const links = pages.flatMap(([, text]) => [...text.matchAll(LINK)].map(([, link = '']) => link));
    const ours = `https://git.example/shop/idempay/blob/v${version}/`;
    expect(links.filter((link) => !/^(https:|#)/.test(link))).toEqual([]);
    const named = links.filter((link) => link.startsWith(ours)).map((link) => link.slice(ours.length).split('#')[0]);
    expect(named).toEqual(expect.arrayContaining(['README.md', 'docs/reference/client.md']));
    expect(named.filter((file) => !existsSync(join(ROOT, file ?? '')))).toEqual([]);
  });

  test('have help texts and log lines that name addresses', async () => {
    const page = `https://git.example/shop/idempay/blob/v${version}/docs/reference/processor.md`;
    for (const [name, command, args] of [
      ['service', 'idempay', ['processor', 'check', '--help']],
      ['cli', 'idempay-cli', ['payments', 'resolve', '--help']],
    ] as const) {
      for (const [path, text] of files.get(name) ?? [])
        if (path.endsWith('.js')) expect(text.match(NAMED_PATH), path).toBeNull();
      const unpacked = join(folder, basename(packed[name], '.tgz'));
      await mkdir(unpacked);
      await run('tar', ['-xzf', packed[name], '-C', unpacked]);
      linkPackages(unpacked);
      const program = join(unpacked, 'package', 'bin', `${command}.js`);
      expect((await run(process.execPath, [program, ...args])).stdout.replaceAll(/\s+/g, '')).toContain(page);
    }
  });

  test('have the licences of all code that is bundled in them', () => {
    const licences = fileOf('service', 'dist/console/licenses.md');
    for (const bundled of ['preact', 'uplot']) expect(licences).toContain(`## ${bundled} - `);
    for (const name of ['swagger-ui', 'swagger-ui-bundle.js'])
      expect(fileOf('service', `dist/http/openapi/reference-page/${name}.LICENSE.txt`)).toContain('icens');
    for (const name of NAMES) expect(fileOf(name, 'LICENSE')).toMatch(/^MIT License/);
  });
});
