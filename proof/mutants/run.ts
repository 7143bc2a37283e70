import { spawn } from 'node:child_process';

export interface Ended {
  readonly code: number | null;
  /** Of both streams. */
  readonly output: string;
}

/** Node with these arguments, in a group of its own, which is ended when it takes longer than `limitMs`. */
export function run(folder: string, args: readonly string[], limitMs: number): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { cwd: folder, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    const listen = (chunk: Buffer) => {
      output += chunk.toString();
    };
    child.stdout.on('data', listen);
    child.stderr.on('data', listen);
    const limit = setTimeout(() => endGroup(child.pid, 'SIGTERM'), limitMs);
    const stop = () => endGroup(child.pid, 'SIGTERM');
    process.once('exit', stop);
    child.once('error', reject);
    child.once('close', (code) => {
      clearTimeout(limit);
      process.off('exit', stop);
      resolve({ code, output });
    });
  });
}

function endGroup(leader: number | undefined, signal: NodeJS.Signals): void {
  if (leader === undefined) return;
  try {
    process.kill(-leader, signal);
  } catch {
    // It has ended by itself.
  }
}
