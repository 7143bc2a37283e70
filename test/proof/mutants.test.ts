import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { MUTANTS } from '../../proof/mutants/mutants.js';
import { applied } from '../../proof/mutants/workspace.js';

test('mutants have names of their own, and none is lost', () => {
  expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length);
  expect(MUTANTS.length).toBeGreaterThanOrEqual(60);
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
