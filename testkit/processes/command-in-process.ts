import { vi } from 'vitest';
import { run } from '#idempay/commands/command-line.js';
import type { CommandResult } from './command.js';
import type { Environment } from './service.js';

/** That a command listens for. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
let last: Promise<unknown> = Promise.resolve();

/**
 * Runs a command in the process of the test, which saves the start of a process, and gives what `runCommand` gives. Commands run
 * one at a time, because the outputs, the environment and the exit code belong to the whole process. A command needs a process of its own
 * if it is killed, runs at the same time as another, or the test looks at its input, its terminal or its end.
 */
export function runCommandHere(
  url: string,
  parameters: readonly string[],
  environment: Environment = {},
): Promise<CommandResult> {
  const result = last.then(() => runAlone(parameters, { IDEMPAY_URL: url, ...environment }));
  last = result.catch(() => {});
  return result;
}

async function runAlone(parameters: readonly string[], environment: Environment): Promise<CommandResult> {
  const output = { stdout: '', stderr: '' };
  const spies = [
    ...(['stdout', 'stderr'] as const).map((name) =>
      vi.spyOn(process[name], 'write').mockImplementation((text, ...more: unknown[]) => {
        output[name] += text;
        (more.at(-1) as (() => void) | undefined)?.();
        return true;
      }),
    ),
    vi.spyOn(console, 'log').mockImplementation((text) => {
      output.stdout += `${text}\n`;
    }),
    vi.spyOn(console, 'error').mockImplementation((text) => {
      output.stderr += `${text}\n`;
    }),
  ];
  const { env, exitCode } = process;
  const before = SIGNALS.map((name) => process.listeners(name));
  process.env = { PATH: env.PATH, ...environment };
  process.exitCode = undefined;
  try {
    await run(parameters);
    return { code: Number(process.exitCode ?? 0), signal: null, ...output };
  } finally {
    process.env = env;
    process.exitCode = exitCode;
    for (const [index, name] of SIGNALS.entries()) {
      for (const listener of process.listeners(name)) {
        if (!before[index]?.includes(listener)) process.off(name, listener);
      }
    }
    for (const spy of spies) spy.mockRestore();
  }
}
