import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../../testkit/programs.js';

const { PAGES } = (await import(join(ROOT, 'scripts/make-reference.mjs'))) as {
  PAGES: Readonly<Record<string, () => string>>;
};

/** The formatter aligns tables. */
const unaligned = (text: string) => text.replaceAll(/ {2,}/g, ' ').replaceAll(/-{3,}/g, '---');

test.each(Object.entries(PAGES))('%s says what the code says: node scripts/make-reference.mjs', (path, make) => {
  expect(unaligned(readFileSync(join(ROOT, path), 'utf8'))).toBe(unaligned(make()));
});
