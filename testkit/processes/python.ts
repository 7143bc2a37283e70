import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** Rejects if Python 3 is missing, and says how to get it. */
export async function requirePython(): Promise<void> {
  await promisify(execFile)('python3', ['--version']).catch((cause) => {
    throw new Error('Python 3 is needed for the samples in Python: apt-get install python3', { cause });
  });
}

/** A launcher for `startProgram`: the program is one in Python. The process id stays its own. */
export const IN_PYTHON = ['sh', '-c', 'exec python3 "$1"'];
