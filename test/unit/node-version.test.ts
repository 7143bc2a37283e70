import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { refusalOfNode } from '#idempay/node-version.js';

test.each(['20.18.1', '18.20.8', '0.10.48'])('Node %s is refused with both versions in the sentence', (version) => {
  const sentence = `Idempay needs Node.js 20.19.0 or newer; this is ${version}. Install a newer one.`;
  expect(refusalOfNode(version)).toBe(sentence);
});

test.each(['20.19.0', '20.20.2', '22.0.0', '25.0.0-nightly'])('Node %s is taken', (version) => {
  expect(refusalOfNode(version)).toBeUndefined();
});

test('npm refuses what the start refuses, and the entry loads nothing before the check', () => {
  const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
  expect(JSON.parse(read('package.json')).engines).toEqual({ node: '>=20.19.0' });
  expect(read('.npmrc')).toContain('engine-strict=true');
  expect(read('dist/main.js').match(/^import .*/gm)).toEqual([expect.stringContaining("'./node-version.js'")]);
  expect(read('dist/node-version.js')).not.toContain('import');
});
