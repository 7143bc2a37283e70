import { execFile } from 'node:child_process';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from '../programs.js';
import { patience } from '../time/patience.js';
import type { CodeBlock } from './code-blocks.js';

const run = promisify(execFile);
const COMPILER = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
/** Inside the package, so that `@idempay/client` is found as a user finds it. */
const FOLDER = join(ROOT, 'build', 'samples');
const RUN_LIMIT_MS = 30_000;
/** The address in every sample. */
const SERVICE = 'http://127.0.0.1:8080';

/** As strict as a user's compiler may be: the types of the client are checked too. Samples show what there is, and use not all of it. */
const COMPILER_OPTIONS = {
  noEmit: false,
  noUnusedLocals: false,
  exactOptionalPropertyTypes: true,
  noImplicitReturns: true,
  skipLibCheck: false,
  outDir: 'out',
  rootDir: '.',
};

/** Compiles the TypeScript blocks of a page as one program and runs it against the service. Resolves to what it prints. */
export async function runTypescript(blocks: readonly CodeBlock[], serviceUrl: string): Promise<string> {
  const page = blocks[0]?.document ?? 'none';
  const name = page.replace(/\W+/g, '-');
  const folder = join(FOLDER, name);
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, `${name}.ts`), programOf(blocks).replaceAll(SERVICE, serviceUrl));
  const project = {
    extends: '../../../tsconfig.json',
    compilerOptions: COMPILER_OPTIONS,
    include: [],
    files: [`${name}.ts`],
  };
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(project));
  await run(process.execPath, [COMPILER, '-p', folder]).catch(({ stdout }) => {
    throw new Error(`the samples of ${page} do not compile:\n${stdout}`);
  });
  const { stdout } = await run(process.execPath, [join(folder, 'out', `${name}.js`)], {
    timeout: patience(RUN_LIMIT_MS),
  });
  return stdout;
}

/** It has the line numbers of the page. */
function programOf(blocks: readonly CodeBlock[]): string {
  const lines: string[] = [];
  for (const { line, text } of blocks)
    for (const [offset, each] of text.split('\n').entries()) lines[line - 1 + offset] = each;
  return Array.from(lines, (line) => line ?? '').join('\n');
}
