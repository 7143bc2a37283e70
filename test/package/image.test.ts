import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ROOT } from '../../testkit/programs.js';

/** A whole build, on a machine that runs other tests beside it. */
const BUILD_MS = 180_000;

const read = (file: string) => readFileSync(join(ROOT, file), 'utf8');

/** Bug: a folder that the build had come to need was missing in the image. Cause: images are built elsewhere, and rarely. */
test('what the image copies is enough to build, and is let through to it', { timeout: BUILD_MS }, () => {
  const copied = [...read('Dockerfile').matchAll(/^COPY (?!--from)(.+)$/gm)].flatMap(([, paths = '']) =>
    paths.split(' ').slice(0, -1),
  );
  const allowed = new Set(read('.dockerignore').split('\n'));
  expect(copied.filter((path) => !allowed.has(`!${path}`))).toEqual([]);

  const folder = mkdtempSync(join(tmpdir(), 'idempay-image-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const path of copied) {
    cpSync(join(ROOT, path), join(folder, path), { recursive: true, filter: (file) => !file.includes('node_modules') });
  }
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  execFileSync(process.execPath, [join(folder, 'scripts', 'build.mjs')], { stdio: 'pipe' });
  for (const file of ['main.js', 'client/index.js', 'console/index.html.gz'])
    expect(existsSync(join(folder, 'dist', file)), file).toBe(true);
});
