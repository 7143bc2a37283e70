import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from '../programs.js';
import { type Environment, startProgram } from './service.js';

const TSC = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');

export type Examples = Awaited<ReturnType<typeof compileExamples>>;

/** The programs of `examples/`, compiled as their README says, into a folder of this test's own inside the package. */
export async function compileExamples() {
  await mkdir(join(ROOT, 'build'), { recursive: true });
  const folder = await mkdtemp(join(ROOT, 'build', 'examples-'));
  const parameters = [TSC, '-p', join(ROOT, 'examples'), '--outDir', folder];
  await promisify(execFile)(process.execPath, parameters).catch((fault) => {
    throw new Error(`examples/ does not compile:\n${fault.stdout}`, { cause: fault });
  });
  return {
    program: (name: string) => join(folder, name, 'main.js'),
    start: (name: string, environment: Environment) => startProgram(join(folder, name, 'main.js'), environment),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
