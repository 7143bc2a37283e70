import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from '../programs.js';
import type { Examples } from './examples.js';
import { IN_PYTHON } from './python.js';
import { type Environment, type Service, startProgram } from './service.js';

const run = promisify(execFile);

export const LANGUAGES = ['TypeScript', 'Python'] as const;

export type ExampleReceiver = Awaited<ReturnType<typeof openExampleReceiver>>;

/** The receiver of webhooks in `examples/receiver`, with a folder of its own, in which it keeps its events from one start to the next. */
export async function openExampleReceiver(language: (typeof LANGUAGES)[number], examples: Examples) {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-receiver-'));
  const events = join(folder, 'events');
  const isPython = language === 'Python';

  async function worksInFolder(): Promise<readonly string[]> {
    const names = (await readdir(events)).filter((name) => name.endsWith('.done'));
    const texts = await Promise.all(names.map((name) => readFile(join(events, name), 'utf8')));
    return texts.filter(Boolean).toSorted();
  }
  async function worksInTable(): Promise<readonly string[]> {
    const program = `import json, sqlite3, sys; print(json.dumps([text for text, in sqlite3.connect(sys.argv[1]).execute("SELECT text FROM books ORDER BY text")]))`;
    return JSON.parse((await run('python3', ['-c', program, events])).stdout);
  }
  return {
    events,
    isPython,
    start(secrets: string): Promise<Service> {
      const environment: Environment = { PORT: '0', EVENTS: events, WEBHOOK_SECRETS: secrets };
      return isPython
        ? startProgram(join(ROOT, 'examples/receiver/receiver.py'), environment, IN_PYTHON)
        : examples.start('receiver', environment);
    },
    /** The results of all work that was done, one for each time. */
    works: () => (isPython ? worksInTable() : worksInFolder()),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
