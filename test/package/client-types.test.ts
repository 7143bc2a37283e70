import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ROOT } from '../../testkit/programs.js';

const GENERATOR = join(ROOT, 'client', 'generator');

test('the generator writes the types of the client that are there', () => {
  const folder = mkdtempSync(join(tmpdir(), 'idempay-types-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const generated = join(folder, 'description.ts');
  execFileSync('npm', ['ci', '--ignore-scripts', '--prefer-offline', '--prefix', GENERATOR]);
  execFileSync(process.execPath, [join(GENERATOR, 'generate.mjs'), generated]);
  expect(readFileSync(generated, 'utf8')).toBe(readFileSync(join(ROOT, 'client', 'description.ts'), 'utf8'));
});
