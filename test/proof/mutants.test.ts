import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { CHECKS, patternsWithoutFile } from '../../proof/mutants/checks.js';
import { MUTANTS } from '../../proof/mutants/mutants.js';
import { canNotice } from '../../proof/mutants/results.js';
import { planted } from '../../proof/mutants/workspace.js';

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

/** `npm run proof -- mutants` takes minutes to find that one can no longer be planted. `compiled-mutants.test.ts` asks the compiler. */
test.each(MUTANTS)('the mutant can be planted: $name', ({ edits }) => {
  for (const { find, replace } of edits) expect(replace).not.toBe(find);
  planted(edits);
});
