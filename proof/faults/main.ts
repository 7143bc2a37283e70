import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/**
 * `npm run faults`. A terminal sends its Ctrl-C to a whole group of processes, and it must end none of the services and
 * servers of a run: they are in a session of their own, with the suite, which is asked to end by itself.
 */
const suite = spawn(
  process.execPath,
  [fileURLToPath(new URL('./suite.js', import.meta.url)), ...process.argv.slice(2)],
  {
    detached: true,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  },
);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => suite.kill('SIGINT'));
suite.once('exit', (code) => process.exit(code ?? 1));
