import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Binary, CACHE, onPath, withLibraries } from './binaries.js';

const run = promisify(execFile);
const PACKAGES = ['valkey-server', 'valkey-tools', 'libjemalloc2', 'liblzf1', 'libatomic1'];
const SOURCES = '/etc/apt/sources.list.d/debian.sources';

/**
 * `valkey-server` of the machine, or of Debian's packages unpacked beside the tests. Debian 12 has it in backports only:
 * those are asked for at the machine's own mirror, with lists of our own, so that the system stays as it is.
 */
export async function findValkey(): Promise<Binary> {
  const installed = onPath('valkey-server');
  if (installed) return { path: installed, environment: process.env };
  const root = join(CACHE, 'valkey');
  if (!existsSync(root)) {
    await unpack(root).catch((cause) => {
      // The words that `scripts/test-topologies.mjs` looks for.
      throw new Error('not to be had here: valkey', { cause });
    });
  }
  return { path: join(root, 'usr/bin/valkey-server'), environment: withLibraries(root) };
}

async function unpack(root: string): Promise<void> {
  const folder = `${root}.${process.pid}`;
  const packages = join(folder, 'packages');
  await mkdir(packages, { recursive: true });
  try {
    const plain = await run('apt-get', ['download', ...PACKAGES], { cwd: packages }).catch(() => undefined);
    if (!plain) await downloadBackports(folder, packages);
    for (const file of (await readdir(packages)).filter((each) => each.endsWith('.deb'))) {
      await run('dpkg', ['-x', join(packages, file), folder]);
    }
    await rm(packages, { recursive: true });
    await rename(folder, root).catch((error) => {
      if (!existsSync(root)) throw error;
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function downloadBackports(folder: string, packages: string): Promise<void> {
  const apt = join(folder, 'apt');
  await mkdir(join(apt, 'lists', 'partial'), { recursive: true });
  await mkdir(join(apt, 'cache', 'archives', 'partial'), { recursive: true });
  await writeFile(join(apt, 'all.sources'), await withBackports());
  const options = [
    `Dir::Etc::SourceList=${join(apt, 'all.sources')}`,
    'Dir::Etc::SourceParts=/dev/null',
    `Dir::State::Lists=${join(apt, 'lists')}`,
    `Dir::Cache=${join(apt, 'cache')}`,
  ].flatMap((option) => ['-o', option]);
  await run('apt-get', [...options, 'update']);
  await run('apt-get', [...options, 'download', ...PACKAGES], { cwd: packages });
  await rm(apt, { recursive: true });
}

/** The machine's first Debian source, signed by the same key, with its backports. */
async function withBackports(): Promise<string> {
  const [first = ''] = (await readFile(SOURCES, 'utf8')).split(/\n\s*\n/);
  const suite = /^Suites:\s*(\S+)/m.exec(first)?.[1];
  if (!suite) throw new Error(`${SOURCES} names no suite`);
  return `${first.replace(/^Suites:.*$/m, `Suites: ${suite} ${suite}-backports`)}\n`;
}
