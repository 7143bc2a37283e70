// Builds the console into dist/console/ of the service: each file compressed, and named by what is in it. Does nothing while no source is
// newer than the page, so that every start may call it.
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const PAGE = 'index.html';
/** Of the packages that are a part of the page. It is for readers of the package, so it is not compressed, and the service does not serve it. */
const LICENSES = 'licenses.md';
const root = fileURLToPath(new URL('.', import.meta.url));
/** The packages are built before, and a build that changes nothing writes nothing. A folder counts as newer when a file of it was removed. */
const SOURCES = [
  'src',
  'index.html',
  'build.mjs',
  'package.json',
  join('..', 'client', 'dist'),
  join('..', 'statements', 'dist'),
];
/** The page's files are next to it under `console/`, also behind a proxy that adds a prefix: so its references have no slash before them. */
const OWN_REFERENCE = /(src|href)="\.\//g;

export async function buildConsole(output) {
  const page = join(output, `${PAGE}.gz`);
  if (existsSync(page) && newest(SOURCES.map((path) => join(root, path))) < statSync(page).mtimeMs) return;
  // vite takes a value that is there, and vitest sets `test`: the page of users would then have the checks of developers, and be a tenth larger.
  process.env.NODE_ENV = 'production';
  const { build } = await import('vite');
  const [{ output: files }] = [
    await build({
      configFile: false,
      root,
      // Relative: to the page, and in scripts to the script.
      base: './',
      logLevel: 'warn',
      oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
      build: {
        write: false,
        target: ['es2022', 'chrome123', 'firefox120', 'safari17.5'],
        assetsDir: '',
        // What stands in a script or style as `data:` would need a wider policy.
        assetsInlineLimit: 0,
        modulePreload: { polyfill: false },
        license: { fileName: LICENSES },
      },
    }),
  ].flat();
  mkdirSync(output, { recursive: true });
  const written = new Set();
  // The page last: with it the files count as built.
  for (const { fileName, ...file } of files.toSorted(
    (a, b) => Number(a.fileName === PAGE) - Number(b.fileName === PAGE),
  )) {
    const content = file.code ?? file.source;
    const text = fileName === PAGE ? String(content).replace(OWN_REFERENCE, '$1="console/') : content;
    const name = fileName === LICENSES ? LICENSES : `${fileName}.gz`;
    writeFileSync(join(output, name), fileName === LICENSES ? text : gzipSync(text, { level: 9 }));
    written.add(name);
  }
  for (const name of readdirSync(output)) if (!written.has(name)) rmSync(join(output, name));
}

function newest(paths) {
  return Math.max(
    ...paths.map((path) => {
      const { mtimeMs } = statSync(path);
      if (!statSync(path).isDirectory()) return mtimeMs;
      return Math.max(mtimeMs, newest(readdirSync(path).map((name) => join(path, name))));
    }),
  );
}
