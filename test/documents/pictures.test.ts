import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ROOT } from '../../testkit/programs.js';

const read = (...path: string[]) => readFileSync(join(ROOT, ...path), 'utf8');
const BROWSER_TESTS = readdirSync(join(ROOT, 'test/browser')).map((name) => read('test/browser', name));
/** As `takeScreenshots` names them; what a deployment or a state adds is cut off. */
const PICTURES = BROWSER_TESTS.flatMap((text) =>
  [...text.matchAll(/takeScreenshots\([\w.]+, ['`]([a-z-]+)/g)].map(([, name = '']) => name.replace(/-$/, '')),
);
const VIEWS = [...read('console/src/navigation/views.ts').matchAll(/\bname: '([a-z-]+)'/g)].map(
  ([, name = '']) => name,
);
const SHOWN = readdirSync(join(ROOT, 'docs/images')).map((name) =>
  name.replace(/^console-|-(light|dark)-\w+\.png$/g, ''),
);

/** `node scripts/screenshots.mjs` makes them all again; no test compares pixels. */
describe('the pictures of the console', () => {
  test('show every view', () => {
    expect(VIEWS.length).toBeGreaterThan(5);
    expect(VIEWS.filter((view) => !PICTURES.some((name) => name === view || name.startsWith(`${view}-`)))).toEqual([]);
  });

  test('in the documents are made by a test', () => {
    expect(SHOWN.length).toBeGreaterThan(0);
    expect(SHOWN.filter((shown) => !PICTURES.some((name) => shown.startsWith(name)))).toEqual([]);
  });
});
