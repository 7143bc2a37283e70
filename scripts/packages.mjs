// Makes the packages that are published, as they are built: `node scripts/packages.mjs FOLDER [REPOSITORY]`. Prints the three files.
// The address of the repository stands in one place, the `repository` of package.json ({ "type": "git", "url": "git+https://.../....git" }), which
// the publisher fills in; the second argument replaces it. Every other address comes from it: of each package, of the links in its pages,
// and of the pages that help texts and log lines name.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { addressOf } from '../dist/platform/manual.js';

const root = fileURLToPath(new URL('..', import.meta.url));
/** By the folder that each stands in. The README of the root is for readers of the repository. */
const PACKAGES = [
  { source: '', name: 'idempay', readme: 'bin/README.md' },
  { source: 'client', name: '@idempay/client', readme: 'client/README.md' },
  { source: 'cli', name: '@idempay/cli', readme: 'cli/README.md' },
];
/** Members that only the repository has a use for. */
const OF_DEVELOPERS = ['scripts', 'workspaces', 'devDependencies', 'allowScripts'];
/** The console is built with these parts of the client. If they were published, they would be a promise. */
const INNER_ENTRIES = ['./proof', './next-cursor'];
const LINK = /\]\((?!https?:|mailto:|#)([^)\s]+)\)/g;

const [folder, repository = readManifest('').repository?.url] = process.argv.slice(2);
if (folder === undefined) {
  console.error('Name the folder: node scripts/packages.mjs FOLDER [REPOSITORY]');
  process.exit(1);
}
if (repository === undefined) {
  console.error('The packages name no address, and their links lead nowhere: set "repository" in package.json.');
}
const options = { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] };
const staging = mkdtempSync(join(tmpdir(), 'idempay-packages-'));
try {
  const workspaces = PACKAGES.filter(({ source }) => source !== '').flatMap(({ name }) => ['--workspace', name]);
  const listing = ['pack', '--dry-run', '--json', '--ignore-scripts', '--include-workspace-root', ...workspaces];
  const listed = Object.values(JSON.parse(execFileSync('npm', listing, options)));
  const folders = PACKAGES.map(({ source, name, readme }) => {
    const staged = join(staging, name);
    for (const { path } of listed.find((each) => each.name === name).files) {
      mkdirSync(dirname(join(staged, path)), { recursive: true });
      copyFileSync(join(root, source, path), join(staged, path));
      if (/^[A-Z]+\.md$/.test(path)) writePage(path === 'README.md' ? readme : path, join(staged, path));
    }
    writeFileSync(join(staged, 'package.json'), `${JSON.stringify(manifestOf(source), undefined, 2)}\n`);
    return staged;
  });
  mkdirSync(folder, { recursive: true });
  const destination = ['--pack-destination', resolve(folder)];
  process.stdout.write(
    execFileSync('npm', ['pack', '--silent', '--ignore-scripts', ...destination, ...folders], options),
  );
} finally {
  rmSync(staging, { recursive: true });
}

function readManifest(source) {
  return JSON.parse(readFileSync(join(root, source, 'package.json'), 'utf8'));
}

function manifestOf(source) {
  const { exports, repository: _, ...others } = readManifest(source);
  const kept = Object.entries(others).filter(([name]) => !OF_DEVELOPERS.includes(name));
  const entries = Object.entries(exports).filter(([name]) => !INNER_ENTRIES.includes(name));
  return {
    ...Object.fromEntries(kept),
    exports: Object.fromEntries(entries),
    ...(repository !== undefined && {
      repository: { type: 'git', url: repository, ...(source !== '' && { directory: source }) },
      homepage: publishedAt('README.md'),
    }),
  };
}

function publishedAt(path) {
  return addressOf({ version: readManifest('').version, repository: { url: repository } }, path);
}

function writePage(source, target) {
  const text = readFileSync(join(root, source), 'utf8');
  const isLinked = repository !== undefined;
  writeFileSync(
    target,
    isLinked ? text.replaceAll(LINK, (_, link) => `](${new URL(link, publishedAt(source))})`) : text,
  );
}
