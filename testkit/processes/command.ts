import { SERVICE } from '../programs.js';
import { type Environment, type Exit, spawnProgram } from './service.js';

export interface CommandResult extends Exit {
  readonly stdout: string;
  readonly stderr: string;
}

/** The command line as a process of its own, at the service with this address. */
export function startCommand(
  url: string,
  parameters: readonly string[],
  environment: Environment = {},
  launcher: readonly string[] = [],
) {
  const { child, ended } = spawnProgram(SERVICE, { IDEMPAY_URL: url, ...environment }, launcher, parameters);
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].on('data', (text) => {
      output[name] += text;
    });
  }
  const result = ended.then((exit): CommandResult => ({ ...exit, ...output }));
  return {
    output,
    result,
    kill: () => void child.kill('SIGKILL'),
    interrupt: (signal: NodeJS.Signals = 'SIGINT') => void child.kill(signal),
  };
}

export function runCommand(...parameters: Parameters<typeof startCommand>) {
  return startCommand(...parameters).result;
}

/** For `startCommand`: standard output is a disk that is full. */
export const FULL_OUTPUT = ['sh', '-c', 'exec "$@" > /dev/full', 'sh'];
