import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { ROOT } from '../../testkit/programs.js';
import type { Edit } from './mutant.js';
import { run, TEMPORARY } from './run.js';

const LEFT_OUT = /(^|\/)(node_modules|\.git|results)$/;
const CONFIGURATIONS = ['tsconfig.json', 'tsconfig.build.json'];
const BUILD_LIMIT_MS = 300_000;

/** A copy of the repository in which mutants are planted, one after the other. */
export class Workspace {
  readonly folder = mkdtempSync(join(tmpdir(), 'idempay-mutants-'));

  constructor(readonly stop: AbortSignal) {
    cpSync(ROOT, this.folder, {
      recursive: true,
      verbatimSymlinks: true,
      filter: (path) => !LEFT_OUT.test(relative(ROOT, path)),
    });
    for (const name of CONFIGURATIONS) {
      // What a mutant leaves unused does not keep it from being built.
      const text = readFileSync(join(ROOT, name), 'utf8');
      writeFileSync(join(this.folder, name), text.replace(/("noUnused\w+"): true/g, '$1: false'));
    }
    symlinkSync(join(ROOT, 'node_modules'), join(this.folder, 'node_modules'));
    // PostgreSQL refuses to run as root; its other user must reach its folder.
    mkdirSync(join(this.folder, TEMPORARY));
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

  run(args: readonly string[], limitMs: number) {
    return run(this.folder, args, limitMs, this.stop);
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
