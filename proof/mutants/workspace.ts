import { spawn } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { linkPackages } from '../../testkit/linked-packages.js';
import { ROOT } from '../../testkit/programs.js';
import { patience } from '../../testkit/time/patience.js';
import type { Edit } from './mutants.js';

const LEFT_OUT = /(^|\/)(node_modules|\.git|results)$/;
const BUILD_LIMIT_MS = 300_000;
/** The fault suite heals its servers and unmounts its disks before it ends, which takes half a minute. */
const END_DEADLINE_MS = 120_000;

/** A copy of the repository in which mutants are planted, one after the other. */
export class Workspace {
  readonly folder = mkdtempSync(join(tmpdir(), 'idempay-mutants-'));
  /** The folder for the files of all that is started here: suites that are interrupted leave some behind. */
  readonly temporary = join(this.folder, 'tmp');

  constructor(private readonly stop: AbortSignal) {
    const filter = (path: string) => !LEFT_OUT.test(relative(ROOT, path));
    cpSync(ROOT, this.folder, { recursive: true, verbatimSymlinks: true, filter });
    for (const name of ['tsconfig.json', 'tsconfig.build.json']) {
      // A mutant is built although it leaves code unused.
      const text = readFileSync(join(ROOT, name), 'utf8');
      writeFileSync(join(this.folder, name), text.replace(/("noUnused\w+"): true/g, '$1: false'));
    }
    linkPackages(this.folder);
    // PostgreSQL refuses to run as root; its other user must reach its folder.
    mkdirSync(this.temporary);
    chmodSync(this.folder, 0o711);
  }

  /** Plants the edits, builds, and calls `use`; afterwards all sources are as they were. */
  async with(edits: readonly Edit[], use: () => Promise<void>): Promise<void> {
    const before = new Map<string, string>();
    try {
      for (const edit of edits) {
        const path = join(this.folder, edit.file);
        const text = readFileSync(path, 'utf8');
        if (!before.has(path)) before.set(path, text);
        writeFileSync(path, applied(edit, text));
      }
      for (const args of [['scripts/build.mjs'], ['node_modules/typescript/bin/tsc', '-p', 'proof/tsconfig.json']]) {
        const { code, output } = await this.run(args, BUILD_LIMIT_MS);
        if (code !== 0) throw new Error(`it cannot be built:\n${output}`);
      }
      await use();
    } finally {
      for (const [path, text] of before) writeFileSync(path, text);
    }
  }

  /** Runs Node in a process group of its own, which is ended with it, after `limitMs`, or when it is stopped: then this rejects. */
  async run(args: readonly string[], limitMs: number): Promise<{ code: number | null; output: string }> {
    this.stop.throwIfAborted();
    const env = { ...process.env, TMPDIR: this.temporary };
    const stdio = ['ignore', 'pipe', 'pipe'] as const;
    const child = spawn(process.execPath, args, { cwd: this.folder, env, detached: true, stdio: [...stdio] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (output += chunk));
    const limit = AbortSignal.any([this.stop, AbortSignal.timeout(patience(limitMs))]);
    let killing: NodeJS.Timeout | undefined;
    const end = () => {
      endGroup(child.pid, 'SIGTERM');
      killing = setTimeout(() => endGroup(child.pid, 'SIGKILL'), patience(END_DEADLINE_MS));
    };
    limit.addEventListener('abort', end);
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
    limit.removeEventListener('abort', end);
    clearTimeout(killing);
    // Tests that end at their first failure leave their servers.
    endGroup(child.pid, 'SIGKILL');
    this.stop.throwIfAborted();
    return { code, output };
  }

  remove(): void {
    // Servers that are ending may still write.
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 300 });
  }
}

/** Throws when the text is not there exactly once: then nobody knows what the edit does. */
export function applied({ file, find, replace }: Edit, text: string): string {
  const parts = text.split(find);
  if (parts.length !== 2) throw new Error(`${parts.length - 1} times in ${file}, not once: ${find}`);
  return parts.join(replace);
}

/** The texts of files, by path. */
export type Texts = ReadonlyMap<string, string>;

/** These texts, or the repository's texts, with the edits. Throws as `applied` does. */
export function planted(edits: readonly Edit[], among: Texts = new Map()): Texts {
  const texts = new Map(among);
  for (const edit of edits) {
    const text = texts.get(edit.file) ?? readFileSync(edit.file, 'utf8');
    texts.set(edit.file, applied(edit, text));
  }
  return texts;
}

function endGroup(leader: number | undefined, signal: NodeJS.Signals): void {
  try {
    if (leader !== undefined) process.kill(-leader, signal);
  } catch {
    // It has ended by itself.
  }
}
