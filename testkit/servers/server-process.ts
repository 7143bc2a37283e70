import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';

/** Sends the signal unless the process has ended already; nothing of it runs any more when this resolves. */
export async function endServer(child: ChildProcess | undefined, signal: NodeJS.Signals): Promise<void> {
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill(signal);
  await exited;
}
