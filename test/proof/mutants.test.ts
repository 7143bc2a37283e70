import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { MUTANTS } from '../../proof/mutants/mutants.js';
import { applied } from '../../proof/mutants/workspace.js';

/** `npm run mutants` takes minutes for what is looked for here; a mutant that can no longer be planted is found at once. */
describe('the mutants', () => {
  test('have names of their own, and are as many as were promised', () => {
    expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length);
    expect(MUTANTS.length).toBeGreaterThanOrEqual(18);
  });

  test.each(MUTANTS)('can be planted: $name', ({ edits }) => {
    const texts = new Map<string, string>();
    for (const edit of edits) {
      const before = texts.get(edit.file) ?? readFileSync(edit.file, 'utf8');
      const after = applied(edit, before);
      expect(after).not.toBe(before);
      texts.set(edit.file, after);
    }
  });
});
