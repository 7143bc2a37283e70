import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ROOT } from '../../testkit/programs.js';

const SCRIPT = join('scripts', 'check-release.mjs');
const MANIFESTS = ['package.json', 'client/package.json', 'cli/package.json'];
const REPOSITORY = 'https://git.example/shop/idempay';

/** What the release job looks at, with the address that a publisher fills in, and the section of a version. */
function copyRepository(section: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'idempay-release-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const name of ['scripts', 'client', 'cli']) mkdirSync(join(folder, name));
  writeFileSync(join(folder, SCRIPT), readFileSync(join(ROOT, SCRIPT)));
  for (const path of MANIFESTS) {
    const manifest = { ...JSON.parse(readFileSync(join(ROOT, path), 'utf8')), version: '1.2.0' };
    const repository = { type: 'git', url: `git+${REPOSITORY}.git` };
    writeFileSync(join(folder, path), JSON.stringify({ ...manifest, ...(path === 'package.json' && { repository }) }));
  }
  writeFileSync(
    join(folder, 'CHANGELOG.md'),
    `# Changelog\n\n## ${section}\n\n- Refunds.\n\n## 1.1.0, 2027-01-31\n\n- Keys.\n`,
  );
  return folder;
}

test('a release whose tag, versions, changelog and address agree has the notes of its version', () => {
  const folder = copyRepository('1.2.0, 2027-02-28');
  expect(execFileSync(process.execPath, [join(folder, SCRIPT), 'v1.2.0', REPOSITORY]).toString()).toBe('- Refunds.\n');
});

test('a release that does not agree names each file and what to change', () => {
  const folder = copyRepository('1.2.0, in preparation');
  const { status, stderr } = spawnSync(process.execPath, [join(folder, SCRIPT), 'v1.2.1', `${REPOSITORY}-fork`]);
  expect(status).toBe(1);
  expect(stderr.toString().trim().split('\n')).toEqual([
    ...MANIFESTS.map((path) => `${path} has the version 1.2.0, and the tag is "v1.2.1"`),
    `package.json names the repository ${REPOSITORY}, and this is "${REPOSITORY}-fork": set "repository" in package.json`,
    'CHANGELOG.md has no section "## 1.2.1, YYYY-MM-DD"',
  ]);
  const sameTag = spawnSync(process.execPath, [join(folder, SCRIPT), 'v1.2.0', REPOSITORY]);
  expect(sameTag.stderr.toString()).toBe('CHANGELOG.md has no section "## 1.2.0, YYYY-MM-DD"\n');
});
