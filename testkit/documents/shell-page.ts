import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type Service, startProgram } from '../processes/service.js';
import { REFERENCE_PROCESSOR, SERVICE } from '../programs.js';
import { freePort } from '../servers/server-process.js';
import type { CodeBlock } from './code-blocks.js';

const SERVER = /^(?<variables>(?:[A-Z_]+=\S+ +)*)npm (?<which>start|run processor)(?: .*)?$/;
/** The page says that the service is to be stopped. */
const WHILE_STOPPED = /^npx idempay adopt /;
const DONE = '@@ done';

/** Some commands of a block, up to a comment that shows what they print. */
export interface Step {
  /** The line of the document where the block's text begins, from 1. */
  readonly line: number;
  readonly shown: readonly string[];
  readonly printed: string;
}

/**
 * Runs the shell blocks of one document in one shell and one folder, in order, as a reader does. `npm start` and `npm run processor` start
 * the built programs, and `npm start` and `npx idempay adopt` end the service that runs. A page that starts none has one. Addresses with the usual ports get free
 * ports. Rejects with the output when a command fails.
 */
export async function runShell(blocks: readonly CodeBlock[], folder: string): Promise<readonly Step[]> {
  const ports = new Map([
    ['8080', await freePort()],
    ['8090', await freePort()],
  ]);
  const local = (text: string) =>
    text.replace(/(127\.0\.0\.1|localhost):(8080|8090)/g, (_, host, port) => `${host}:${ports.get(port)}`);
  const running = new Map<string, Service>();
  const shell = spawn('bash', ['-eu', '-o', 'pipefail'], { cwd: folder, stdio: ['pipe', 'pipe', 'pipe'] });
  const ended = once(shell, 'close');
  let output = '';
  let notice = () => {};
  for (const input of [shell.stdout, shell.stderr]) {
    createInterface({ input }).on('line', (line) => {
      output += `${line}\n`;
      notice();
    });
  }

  async function execute(command: string): Promise<void> {
    shell.stdin.write(`${command}\necho; echo '${DONE}'\n`);
    await Promise.race([
      new Promise<void>((resolve) => {
        notice = () => output.includes(DONE) && resolve();
      }),
      ended.then(() => Promise.reject(new Error(`this failed:\n${command}\n${output}`))),
    ]);
    output = output.replace(`${DONE}\n`, '');
  }

  async function serve(which: string, variables: string): Promise<void> {
    await running.get(which)?.stop();
    await mkdir(join(folder, 'data'), { recursive: true });
    const given = Object.fromEntries([...variables.matchAll(/(\w+)=(\S+)/g)].map(([, name, value]) => [name, value]));
    const usual =
      which === 'start'
        ? { PORT: `${ports.get('8080')}`, DATA_DIR: join(folder, 'data') }
        : { PROCESSOR_PORT: `${ports.get('8090')}`, CHARGE_LOG: join(folder, 'data', 'charges.ndjson') };
    for (const name of Object.keys(given))
      if (name.endsWith('_FILE') || name === 'DATA_DIR') given[name] = join(folder, given[name] as string);
    running.set(which, await startProgram(which === 'start' ? SERVICE : REFERENCE_PROCESSOR, { ...usual, ...given }));
  }

  async function obey(command: string): Promise<void> {
    const { variables = '', which } = SERVER.exec(command)?.groups ?? {};
    if (WHILE_STOPPED.test(command)) await running.get('start')?.stop();
    if (which === undefined) await execute(command);
    else await serve(which, variables);
  }

  const steps: Step[] = [];
  try {
    await execute(`idempay() { '${process.execPath}' '${SERVICE}' "$@"; }; npx() { "$@"; }
      export IDEMPAY_URL=${local('http://127.0.0.1:8080')}`);
    if (!blocks.some(({ text }) => /npm start/.test(text))) await serve('start', '');
    for (const { line, text } of blocks) {
      // A comment belongs to the commands above it.
      for (const part of text.split(/(?<=^#.*\n)(?!#)/m)) {
        output = '';
        for (const command of commandsOf(local(part))) await obey(command);
        steps.push({ line, shown: shownOutput(local(part)), printed: output });
      }
    }
  } finally {
    shell.stdin.end();
    await ended;
    await Promise.all([...running.values()].map((service) => service.stop()));
  }
  return steps;
}

/** Lines that belong together, and each start and end of a server. Installation and build are done before any test, so these are left out. */
function commandsOf(text: string): string[] {
  const commands: string[] = [];
  let lines: string[] = [];
  for (const line of text
    .replaceAll(/ +#.*$|^#.*$/gm, '')
    .replaceAll(/npm (ci|run build)( && | *$)/gm, '')
    .split('\n')) {
    if (!SERVER.test(line) && !WHILE_STOPPED.test(line)) lines.push(line);
    else {
      commands.push(lines.join('\n'), line);
      lines = [];
    }
  }
  return [...commands, lines.join('\n')].filter((command) => command.trim() !== '');
}

/**
 * The output that a block names in its comments below a command: `# HTTP/1.1 200 OK`, `# "Transaction ID: TXN..."`, `# idempotent-replayed:
 * true`. The rest of a comment, after the status, is for the reader.
 */
function shownOutput(text: string): string[] {
  const comments = [...text.matchAll(/^# (.*)$/gm)].map(([, comment = '']) => comment);
  return comments.flatMap((comment) => {
    const status = /^HTTP\/1\.1 \d{3} [A-Za-z ]+/.exec(comment)?.[0];
    if (status !== undefined) return [status];
    return /^(["{[]|[a-z-]+: )/.test(comment) ? [comment] : [];
  });
}

/** Ids differ from run to run. */
export const withoutIds = (text: string) => text.replaceAll(/TXN\d+/g, 'TXN');
