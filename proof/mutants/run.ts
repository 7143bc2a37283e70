import { spawn } from 'node:child_process';
import { join } from 'node:path';

/** The fault suite heals its servers and unmounts its disks before it ends: half a minute, on a busy machine more. */
const END_DEADLINE_MS = 120_000;

/** In the folder of a run: where all that it starts keeps its files. */
export const TEMPORARY = 'tmp';

export interface Ended {
  readonly code: number | null;
  /** Of both streams. */
  readonly output: string;
}

/** Runs Node in a process group of its own, which is ended after `limitMs`, or when `stop` aborts: then this rejects. */
export function run(folder: string, args: readonly string[], limitMs: number, stop: AbortSignal): Promise<Ended> {
  return new Promise((resolve, reject) => {
    stop.throwIfAborted();
    // Servers of an interrupted suite leave their folders behind: these are removed with the workspace.
    const env = { ...process.env, TMPDIR: join(folder, TEMPORARY) };
    const child = spawn(process.execPath, args, {
      cwd: folder,
      env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        output += chunk;
      });
    }
    const timers: NodeJS.Timeout[] = [];
    const end = () => {
      endGroup(child.pid, 'SIGTERM');
      timers.push(setTimeout(() => endGroup(child.pid, 'SIGKILL'), END_DEADLINE_MS));
    };
    timers.push(setTimeout(end, limitMs));
    stop.addEventListener('abort', end, { once: true });
    child.once('error', reject);
    child.once('close', (code) => {
      for (const timer of timers) clearTimeout(timer);
      stop.removeEventListener('abort', end);
      if (stop.aborted) reject(stop.reason);
      else resolve({ code, output });
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
