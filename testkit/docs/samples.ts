import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from '../programs.js';

/** Inside the package, so that `idempay/client` is found as a user finds it. */
const FOLDER = join(ROOT, 'build', 'samples');
const COMPILER = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
const RUN_LIMIT_MS = 30_000;
/** The address in every sample. */
const SERVICE = 'http://127.0.0.1:8080';
/** A block that is shown, or one that only the program has: what a sample takes for granted. */
const BLOCK = /^```ts\n([\s\S]*?)^```$|^<!-- ts\n([\s\S]*?)^-->$/gm;

const run = promisify(execFile);

/** All TypeScript of a page, in its order, as one program; its line numbers are those of the page. */
export function programOf(page: string): string {
  const text = readFileSync(join(ROOT, page), 'utf8');
  const lines = text.split('\n').map(() => '');
  for (const { index, 1: shown, 2: hidden } of text.matchAll(BLOCK)) {
    const first = text.slice(0, index).split('\n').length;
    for (const [offset, line] of (shown ?? hidden ?? '').split('\n').entries()) {
      if (line !== '') lines[first + offset] = line;
    }
  }
  return lines.join('\n');
}

/** Compiles the samples of a page as strictly as the repository is, and runs them against the service. Rejects with the output. */
export async function runSamples(page: string, serviceUrl: string): Promise<string> {
  const program = programOf(page);
  if (program.trim() === '') throw new Error(`${page} has no samples`);
  const name = page.replace(/\W+/g, '-');
  const folder = join(FOLDER, name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${name}.ts`);
  writeFileSync(file, program.replaceAll(SERVICE, serviceUrl));
  const compilerOptions = {
    noEmit: false,
    // Samples show what there is, and use not all of it.
    noUnusedLocals: false,
    outDir: 'out',
    rootDir: '.',
  };
  const project = { extends: '../../../tsconfig.json', compilerOptions, include: [], files: [`${name}.ts`] };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(project));
  await run(process.execPath, [COMPILER, '-p', folder]).catch(({ stdout }) => {
    throw new Error(`the samples of ${page} do not compile:\n${stdout}`);
  });
  const { stdout } = await run(process.execPath, [join(folder, 'out', `${name}.js`)], { timeout: RUN_LIMIT_MS });
  return stdout;
}
