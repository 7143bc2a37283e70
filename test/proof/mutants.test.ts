import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { MUTANTS } from '../../proof/mutants/mutants.js';
import { applied } from '../../proof/mutants/workspace.js';

test('no mutant is lost, and two mutants with one name are not taken for one of several files', () => {
  expect(MUTANTS.length).toBeGreaterThanOrEqual(60);
  const ofSeveralFiles = MUTANTS.filter(({ edits }) => new Set(edits.map(({ file }) => file)).size > 1);
  expect(ofSeveralFiles.map(({ name }) => name)).toEqual([
    'settle without epoch, in SQLite (rows have the process as owner, or the owner fences alone)',
    "the list's version moves outside the commit, in PostgreSQL",
  ]);
});

/** `npm run mutants` takes minutes to find that one can no longer be planted. */
test.each(MUTANTS)('the mutant can be planted: $name', ({ edits }) => {
  const texts = new Map<string, string>();
  for (const edit of edits) {
    const before = texts.get(edit.file) ?? readFileSync(edit.file, 'utf8');
    const after = applied(edit, before);
    expect(after).not.toBe(before);
    texts.set(edit.file, after);
  }
});
