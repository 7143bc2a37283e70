import { execFile } from 'node:child_process';
import { cp, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { ROOT } from './programs.js';

/** As for a user: without what npm hands to its scripts, such as this repository's `engine-strict`. */
export const USERS_ENVIRONMENT = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !name.toLowerCase().startsWith('npm_')),
);

/** Uses values, types and errors of the client, and the fake service. Without `await` at its top, which CommonJS does not have. */
const CLIENT_PROGRAM = `import { DeclinedError, Idempay, type PayResult, UnknownOutcomeError } from '@idempay/client';
import { FakeIdempay } from 'idempay/testing';

const fake = new FakeIdempay();
const idempay = new Idempay({ baseUrl: fake.baseUrl, fetch: fake.fetch });
fake.next('pay', { lose: 'answer' });
export async function payTwice(): Promise<string | undefined> {
  const { key, attempts }: PayResult = await idempay.payments.pay({ amount: '1.00', currency: 'EUR' });
  const { state } = await idempay.payments.get(key);
  fake.next('pay', { decline: 'lost card' });
  try {
    await idempay.payments.pay({ amount: '1.00', currency: 'EUR' });
  } catch (error) {
    if (error instanceof UnknownOutcomeError) throw error;
    if (error instanceof DeclinedError) return [state, attempts, fake.charges.length, error.reason].join(' ');
  }
}
`;

/**
 * Packs the service, the client and the command into a folder, as they are built and would be published. Resolves to the three files.
 * If `repository` is omitted, they have the address that package.json has.
 */
export async function packInto(
  folder: string,
  repository?: string,
): Promise<{ service: string; client: string; cli: string }> {
  const script = [join('scripts', 'packages.mjs'), folder, ...(repository === undefined ? [] : [repository])];
  const { stdout } = await promisify(execFile)(process.execPath, script, { cwd: ROOT, env: USERS_ENVIRONMENT });
  const files = stdout.trim().split('\n');
  const fileOf = (name: string) => join(folder, files.find((file) => file.startsWith(name)) ?? '');
  return { service: fileOf('idempay-0'), client: fileOf('idempay-client-'), cli: fileOf('idempay-cli-') };
}

/** Installs the package of the client in a folder, without a registry: what it needs besides itself is missing, or comes from what npm has kept. */
export async function installAlone(client: string, folder: string): Promise<void> {
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  await npm(['install', '--offline', '--engine-strict', client], folder);
}

/** Compiles the shop of `examples/`, its back office and their own tests in a folder that has both packages. Resolves to the names of the tests. */
export async function compileShopTests(folder: string): Promise<readonly string[]> {
  const tests = ['shop/payments.test', 'back-office/refunds.test'];
  for (const part of ['shop', 'back-office'])
    await cp(join(ROOT, 'examples', part), join(folder, part), { recursive: true });
  const compilerOptions = {
    target: 'ES2023',
    module: 'NodeNext',
    strict: true,
    exactOptionalPropertyTypes: true,
    types: ['node'],
    typeRoots: [join(ROOT, 'node_modules', '@types')],
    rewriteRelativeImportExtensions: true,
  };
  await writeFile(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ compilerOptions, files: tests.map((name) => `${name}.ts`) }),
  );
  const compiler = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  await promisify(execFile)(process.execPath, [compiler, '-p', folder], { cwd: folder, env: USERS_ENVIRONMENT });
  return tests.map((name) => `${name}.js`);
}

interface ProgramSettings {
  /** The `type` of the package that the program belongs to. */
  readonly type: 'module' | 'commonjs';
  readonly module: string;
  readonly moduleResolution?: string;
  readonly lib?: readonly string[];
}

/** Checks a program that uses both packages, which are installed in the folder, and all their declarations. Resolves to the errors of the compiler. */
export async function compileProgram(
  [command = '', ...args]: readonly string[],
  folder: string,
  { type, ...settings }: ProgramSettings,
): Promise<string> {
  const program = await mkdtemp(join(folder, 'program-'));
  const compilerOptions = {
    target: 'ES2022',
    lib: ['ES2022', 'DOM'],
    types: [],
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: false,
    noEmit: true,
    ...settings,
  };
  await writeFile(join(program, 'package.json'), JSON.stringify({ type }));
  await writeFile(join(program, 'program.ts'), CLIENT_PROGRAM);
  await writeFile(join(program, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['program.ts'] }));
  const options = { cwd: folder, env: USERS_ENVIRONMENT };
  const { stdout } = await promisify(execFile)(command, [...args, '-p', program], options).catch((fault) => fault);
  return stdout;
}

/** The bytes of all packages that are installed in a folder. */
export async function installedSize(folder: string): Promise<number> {
  const modules = join(folder, 'node_modules');
  let bytes = 0;
  for (const path of await readdir(modules, { recursive: true })) {
    const found = await stat(join(modules, path));
    if (found.isFile()) bytes += found.size;
  }
  return bytes;
}

/** As a user runs npm in a folder. */
export function npm(args: readonly string[], folder: string) {
  const quiet = ['--no-audit', '--no-fund'];
  return promisify(execFile)('npm', [...args, ...quiet], { cwd: folder, env: USERS_ENVIRONMENT });
}

/** The files of a package, by the path that they have in it; compressed ones as they are when unpacked. */
export async function packedFiles(packed: string): Promise<Map<string, string>> {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-packed-'));
  try {
    await promisify(execFile)('tar', ['-xzf', packed, '-C', folder]);
    const files = new Map<string, string>();
    for (const path of await readdir(folder, { recursive: true })) {
      if ((await stat(join(folder, path))).isDirectory()) continue;
      const bytes = await readFile(join(folder, path));
      files.set(path, (path.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString());
    }
    return files;
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** The files that name a source map which is not among them. A debugger asks for it, and warns. */
export function unheldMaps(files: ReadonlyMap<string, string>): string[] {
  return [...files].flatMap(([path, text]) => {
    const named = [...text.matchAll(/^(?:\/\/|\/\*)[#@] sourceMappingURL=(\S+)/gm)].map(([, map = '']) => map);
    return named
      .filter((map) => !map.startsWith('data:') && !files.has(join(dirname(path), map)))
      .map((map) => `${path}: ${map}`);
  });
}
