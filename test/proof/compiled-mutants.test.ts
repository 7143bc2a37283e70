import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { type Edit, MUTANTS } from '../../proof/mutants/mutants.js';
import { planted, type Texts } from '../../proof/mutants/workspace.js';
import { linkPackages } from '../../testkit/linked-packages.js';
import { WITHOUT_LIMIT } from '../../testkit/time/patience.js';

/** `mutants.test.ts` reads their texts only. */
test('the compiler takes all mutants, planted as many at a time as fit', WITHOUT_LIMIT, async () => {
  const folder = copyOfSources();
  for (const texts of plantedTogether()) {
    for (const [file, text] of texts) writeFileSync(join(folder, file), text);
    expect(await compilerErrors(folder)).toBe('');
    for (const file of texts.keys()) cpSync(file, join(folder, file));
  }
});

function plantedTogether(): Texts[] {
  const together: Texts[] = [];
  for (const { edits } of MUTANTS) {
    const index = together.findIndex((texts) => canBePlanted(edits, texts));
    if (index < 0) together.push(planted(edits));
    else together[index] = planted(edits, together[index]);
  }
  return together;
}

function canBePlanted(edits: readonly Edit[], among: Texts): boolean {
  try {
    planted(edits, among);
    return true;
  } catch {
    return false;
  }
}

function copyOfSources(): string {
  const folder = mkdtempSync(join(tmpdir(), 'idempay-planted-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const name of ['src', 'client', 'proof', 'testkit', 'examples', 'package.json', 'tsconfig.json']) {
    cpSync(name, join(folder, name), { recursive: true, filter: (path) => !path.endsWith('node_modules') });
  }
  symlinkSync(resolve('dist'), join(folder, 'dist'));
  linkPackages(folder);
  const options = {
    extends: './tsconfig.json',
    // As `npm run proof -- mutants` builds them: what a mutant leaves unused is no fault. All is one program here, so the service
    // knows the browser's types as well, which the client needs.
    compilerOptions: {
      noUnusedLocals: false,
      noUnusedParameters: false,
      // A file that a further copy leaves as it was is not compiled again.
      incremental: true,
      tsBuildInfoFile: 'planted.tsbuildinfo',
      lib: ['ES2024', 'DOM', 'DOM.Iterable', 'DOM.AsyncIterable'],
    },
    include: ['src', 'client', 'proof', 'testkit'],
    exclude: ['client/dist', 'testkit/console'],
  };
  writeFileSync(join(folder, 'tsconfig.planted.json'), JSON.stringify(options));
  return folder;
}

function compilerErrors(folder: string): Promise<string> {
  const compiler = resolve('node_modules/typescript/bin/tsc');
  return promisify(execFile)(process.execPath, [compiler, '-p', 'tsconfig.planted.json'], { cwd: folder }).then(
    () => '',
    // A compiler that was ended says nothing.
    ({ stdout, message }) => stdout || message,
  );
}
