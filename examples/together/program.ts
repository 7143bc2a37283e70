import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { createInterface } from 'node:readline';

export interface Program {
  /** Its address. Rejects if it ends before it listens. */
  readonly listening: Promise<string>;
  readonly ended: Promise<unknown>;
  lastLines(): string;
  stop(): Promise<void>;
}

/** More than any of them needs to finish what is under way. */
const STOP_MS = 15_000;
const LAST_LINES = 10;

interface Start {
  readonly name: string;
  readonly file: string;
  readonly settings: Readonly<Record<string, string | undefined>>;
  readonly log: string;
}

/** A program that logs its port when it listens. It has a process group of its own, so that Ctrl-C reaches only the program that started it. */
export function startProgram({ name, file, settings, log }: Start): Program {
  const { PATH, NODE_EXTRA_CA_CERTS } = process.env;
  const env = { PATH, NODE_EXTRA_CA_CERTS, HOST: '127.0.0.1', ...settings };
  const child = spawn(process.execPath, [file], { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  const logFile = createWriteStream(log, { flags: 'a' });
  const lines: string[] = [];
  const ended = once(child, 'close').finally(() => logFile.end());
  const listening = new Promise<string>((resolve, reject) => {
    for (const input of [child.stdout, child.stderr]) {
      createInterface({ input }).on('line', (line) => {
        logFile.write(`${line}\n`);
        lines.push(line);
        if (lines.length > LAST_LINES) lines.shift();
        const port = portIn(line);
        if (port !== undefined) resolve(`http://127.0.0.1:${port}`);
      });
    }
    void ended.then(() => reject(new Error(`${name} did not start.`)));
  });
  return {
    listening,
    ended,
    lastLines: () => lines.join('\n'),
    async stop() {
      child.kill('SIGTERM');
      const deadline = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
      await ended;
      clearTimeout(deadline);
    },
  };
}

function portIn(line: string): number | undefined {
  const [, port] = /^\{.*"msg":"listening".*\}$/.test(line) ? (/"port":(\d+)/.exec(line) ?? []) : [];
  return port === undefined ? undefined : Number(port);
}
