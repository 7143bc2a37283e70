// Makes images of each view of the console, light and dark, for a phone, a desktop and a wide screen, in build/screenshots; and again the ones
// that the documents show (docs/images/console-*.png):  node scripts/screenshots.mjs
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = join(root, 'build', 'screenshots');
const images = join(root, 'docs', 'images');
const tests = readdirSync(join(root, 'test', 'browser')).filter((name) =>
  readFileSync(join(root, 'test', 'browser', name), 'utf8').includes('takeScreenshots('),
);

rmSync(folder, { recursive: true, force: true });
const { status } = spawnSync(
  'npx',
  ['vitest', 'run', '--maxWorkers=1', ...tests.map((name) => join('test', 'browser', name))],
  {
    cwd: root,
    env: { ...process.env, IDEMPAY_SCREENSHOTS: folder },
    stdio: 'inherit',
  },
);
if (status !== 0) process.exit(status ?? 1);
const made = readdirSync(folder);
for (const image of readdirSync(images).filter((name) => /^console-.*\.png$/.test(name))) {
  const name = image.replace(/^console-/, '');
  if (!existsSync(join(folder, name))) throw new Error(`docs/images/${image} is made by no test any more`);
  copyFileSync(join(folder, name), join(images, image));
}
console.log(`${made.length} images in ${folder}`);
