import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';

/** The fault suite heals its servers and takes its disks away first: half a minute, on a busy machine more. */
const LONGEST_GOODBYE_MS = 120_000;

/** In the folder of a run: where whatever it starts keeps its files. */
export const TEMPORARY = 'tmp';

export interface Ended {
  readonly code: number | null;
  /** Of both streams. */
  readonly output: string;
}

/** What was under way, or was to begin, when everything was stopped: it says nothing about a mutant. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';
}

const running = new Set<ChildProcess>();
let isStopped = false;

/** Asks all that runs to end by itself, and starts nothing any more: each `run` rejects, once nothing of it is left. */
export function stopAll(): void {
  isStopped = true;
  for (const child of running) end(child);
}

/** Node with these arguments, in a group of its own, which is ended when it takes longer than `limitMs`. */
export function run(folder: string, args: readonly string[], limitMs: number): Promise<Ended> {
  return new Promise((resolve, reject) => {
    if (isStopped) {
      reject(new Interrupted('interrupted'));
      return;
    }
    // The servers of an interrupted contract suite leave their folders behind: these go with the folder of all.
    const env = { ...process.env, TMPDIR: join(folder, TEMPORARY) };
    const child = spawn(process.execPath, args, {
      cwd: folder,
      env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    const listen = (chunk: Buffer) => {
      output += chunk.toString();
    };
    child.stdout.on('data', listen);
    child.stderr.on('data', listen);
    running.add(child);
    const limit = setTimeout(() => end(child), limitMs);
    const abandon = () => endGroup(child.pid, 'SIGTERM');
    process.once('exit', abandon);
    const over = () => {
      clearTimeout(limit);
      process.off('exit', abandon);
      running.delete(child);
    };
    child.once('error', (error) => {
      over();
      reject(error);
    });
    child.once('close', (code) => {
      over();
      if (isStopped) reject(new Interrupted('interrupted'));
      else resolve({ code, output });
    });
  });
}

/** By itself if it can; whoever does not listen is ended all the same. */
function end(child: ChildProcess): void {
  endGroup(child.pid, 'SIGTERM');
  const patience = setTimeout(() => endGroup(child.pid, 'SIGKILL'), LONGEST_GOODBYE_MS);
  child.once('close', () => clearTimeout(patience));
}

function endGroup(leader: number | undefined, signal: NodeJS.Signals): void {
  if (leader === undefined) return;
  try {
    process.kill(-leader, signal);
  } catch {
    // It has ended by itself.
  }
}
