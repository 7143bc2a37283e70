import { expect } from 'vitest';
import { runCommandHere } from '../processes/command-in-process.js';
import { until } from '../time/until.js';

const SESSIONS_DEADLINE_MS = 60_000;

/** `idempay adopt` on stores whose services were stopped: their sessions may take a moment to end. Returns what it says. */
export async function adoptStopped(environment: Readonly<Record<string, string>>, client: string): Promise<string> {
  return until('the sessions of the services to end', SESSIONS_DEADLINE_MS, async () => {
    const { code, stdout, stderr } = await runCommandHere('', ['adopt', client, '--yes'], environment);
    if (stderr.includes('a service runs on this database')) return undefined;
    expect(code === 0, stderr).toBe(stderr === '');
    return stdout + stderr;
  });
}
