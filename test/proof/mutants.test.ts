import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { CHECKS, patternsWithoutFile } from '../../proof/mutants/checks.js';
import { type Edit, MUTANTS } from '../../proof/mutants/mutants.js';
import { canNotice } from '../../proof/mutants/results.js';
import { applied } from '../../proof/mutants/workspace.js';
import { linkPackages } from '../../testkit/linked-packages.js';
import { WITHOUT_LIMIT } from '../../testkit/time/patience.js';

/** By file. */
type Texts = ReadonlyMap<string, string>;

test('no mutant is lost, and two mutants with one name are not taken for one of several files', () => {
  expect(MUTANTS.length).toBeGreaterThanOrEqual(60);
  const ofSeveralFiles = MUTANTS.filter(({ edits }) => new Set(edits.map(({ file }) => file)).size > 1);
  expect(ofSeveralFiles.map(({ name }) => name)).toEqual([
    "the list's version moves outside the commit, in PostgreSQL",
    'settle without epoch, in SQLite (rows have the process as owner, or the owner fences alone)',
  ]);
});

/**
 * Bug: the checks of the embedded deployment counted for mutants of PostgreSQL and Redis. Cause: folders were renamed, and a pattern that
 * names the files of the other deployment matched none any more. Fix: a pattern without a file is an error.
 */
test('each pattern of a check matches a file, and no check of one deployment counts for the other', () => {
  const files = ['src', 'client', 'proof'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((file) => `${folder}/${file}`),
  );
  expect(patternsWithoutFile(files)).toEqual([]);
  for (const [deployment, other] of [
    ['embedded', /stores\/(postgres|redis)\//],
    ['distributed', /stores\/embedded\//],
  ] as const) {
    for (const mutant of MUTANTS.filter(({ edits }) => edits.every(({ file }) => other.test(file)))) {
      const noticing = CHECKS.filter((check) => canNotice(check, mutant)).map(({ name }) => name);
      expect(noticing).not.toContain(`contracts ${deployment}`);
      expect(noticing).not.toContain(`faults ${deployment}`);
    }
  }
});

/** `npm run proof -- mutants` takes minutes to find that one can no longer be planted, or built. */
test.each(MUTANTS)('the mutant can be planted: $name', ({ edits }) => {
  for (const { find, replace } of edits) expect(replace).not.toBe(find);
  planted(edits);
});

test('the compiler takes all of them, planted as many at a time as fit', WITHOUT_LIMIT, async () => {
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

/** Throws where a text to replace is not there exactly once. */
function planted(edits: readonly Edit[], among: Texts = new Map()): Texts {
  const texts = new Map(among);
  for (const edit of edits) {
    const text = texts.get(edit.file) ?? readFileSync(edit.file, 'utf8');
    texts.set(edit.file, applied(edit, text));
  }
  return texts;
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
      // What a further copy leaves as it was is not compiled again.
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
