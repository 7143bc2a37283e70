import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from '../../testkit/programs.js';
import type { Edit } from './mutants.js';
import { run, TEMPORARY } from './run.js';

/** All that the service, the proof and the contract suites are made of, with what was built before. */
const PARTS = ['src', 'proof', 'test', 'testkit', 'scripts', 'dist', 'build', 'package.json', 'vitest.config.ts'];
const CONFIGURATIONS = ['tsconfig.json', 'tsconfig.build.json'];
const LEFT_OUT = /\/proof\/(results|peers)(\/|$)/;
const LONGEST_BUILD_MS = 300_000;

/** A copy of the repository in which mistakes are planted, one after the other. */
export class Workspace {
  readonly folder = mkdtempSync(join(tmpdir(), 'idempay-mutants-'));

  constructor() {
    for (const part of PARTS) {
      cpSync(join(ROOT, part), join(this.folder, part), {
        recursive: true,
        verbatimSymlinks: true,
        filter: (path) => !LEFT_OUT.test(path),
      });
    }
    for (const name of CONFIGURATIONS) {
      // What a mistake leaves unused does not keep it from being built.
      const text = readFileSync(join(ROOT, name), 'utf8');
      writeFileSync(join(this.folder, name), text.replace(/("noUnused\w+"): true/g, '$1: false'));
    }
    symlinkSync(join(ROOT, 'node_modules'), join(this.folder, 'node_modules'));
    // PostgreSQL refuses to run as root: as somebody else it must get to its folder.
    mkdirSync(join(this.folder, TEMPORARY));
    chmodSync(this.folder, 0o711);
  }

  /** Plants the edits, builds, and hands over to `use`; afterwards everything is as it was, but for the build. */
  async with<T>(edits: readonly Edit[], use: () => Promise<T>): Promise<T> {
    const before = new Map<string, string>();
    try {
      for (const edit of edits) {
        const path = join(this.folder, edit.file);
        const text = readFileSync(path, 'utf8');
        if (!before.has(path)) before.set(path, text);
        writeFileSync(path, applied(edit, text));
      }
      await this.build();
      return await use();
    } finally {
      for (const [path, text] of before) writeFileSync(path, text);
    }
  }

  remove(): void {
    // Servers that were told to end may still write their last.
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 300 });
  }

  private async build(): Promise<void> {
    for (const args of [['scripts/build.mjs'], ['node_modules/typescript/bin/tsc', '-p', 'proof/tsconfig.json']]) {
      const { code, output } = await run(this.folder, args, LONGEST_BUILD_MS);
      if (code !== 0) throw new Error(`it cannot be built:\n${output}`);
    }
  }
}

/** Throws when the text is not there, or there more than once: then it is no longer known what the edit does. */
export function applied({ file, find, replace }: Edit, text: string): string {
  const parts = text.split(find);
  if (parts.length !== 2) throw new Error(`${parts.length - 1} times in ${file}, and not once: ${find}`);
  return parts.join(replace);
}
