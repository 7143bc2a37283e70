import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { linkPackages } from '../../testkit/linked-packages.js';
import { ROOT } from '../../testkit/programs.js';

const read = (file: string) => readFileSync(join(ROOT, file), 'utf8');

/** Bug: a folder that the build had come to need was missing in the image. Cause: images are built elsewhere, and rarely. */
test('what the image copies is enough to build, and is let through to it', () => {
  const copied = [...read('Dockerfile').matchAll(/^COPY (?!--from)(.+)$/gm)].flatMap(([, paths = '']) =>
    paths.split(' ').slice(0, -1),
  );
  const allowed = new Set(read('.dockerignore').split('\n'));
  const isLetThrough = (path: string) => allowed.has(`!${path}`) || allowed.has(`!${dirname(path)}`);
  expect(copied.filter((path) => !isLetThrough(path))).toEqual([]);

  const folder = mkdtempSync(join(tmpdir(), 'idempay-image-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const path of copied) {
    const filter = (file: string) => !/(^|[/\\])(node_modules|dist)$/.test(relative(ROOT, file));
    cpSync(join(ROOT, path), join(folder, path), { recursive: true, filter });
  }
  linkPackages(folder);
  execFileSync(process.execPath, [join(folder, 'scripts', 'build.mjs')], { stdio: 'pipe' });
  for (const file of [
    'dist/main.js',
    'dist/client/index.js',
    'dist/cli/run-command.js',
    'dist/reference-processor/main.js',
    'dist/console/index.html.gz',
  ])
    expect(existsSync(join(folder, file)), file).toBe(true);
});
