import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { portOutOfTheWay } from '../../testkit/processes/reference-processor.js';
import { pause, until } from '../../testkit/time/until.js';

/** Several times what any start takes on a busy machine. */
const START_DEADLINE_MS = 40_000;
/** As a supervisor would: not at once, not late. */
const RESTART_AFTER_MS = 500;
const KEPT_OUTPUT = 2_000;

/** One server process under a supervisor: when it ends by itself it is started again, on the same port. */
export class ServerProcess {
  /** How often it ended without being killed by us, and the last thing it said then. */
  deaths = 0;
  lastWords = '';
  #child: ChildProcess | undefined;
  #isListening = false;
  #isClosed = false;

  private constructor(
    private readonly entry: URL,
    private readonly environment: Readonly<Record<string, string>>,
    private readonly port: number,
  ) {}

  static async start(entry: URL, environment: Readonly<Record<string, string>>): Promise<ServerProcess> {
    const server = new ServerProcess(entry, environment, await portOutOfTheWay());
    server.#spawn();
    await server.listening().catch(async (error: unknown) => {
      await server.close();
      throw error;
    });
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Throws when it does not listen in time. */
  async listening(): Promise<void> {
    await until(`${this.url} to listen\n${this.lastWords}`, START_DEADLINE_MS, () => this.#isListening);
  }

  /** SIGKILL, and the next process. Resolves when nothing of the killed one runs any more. */
  async kill(): Promise<void> {
    const killed = this.#child;
    this.#child = undefined;
    this.#isListening = false;
    if (killed && killed.exitCode === null && killed.signalCode === null) {
      killed.kill('SIGKILL');
      await once(killed, 'exit');
    }
    if (!this.#isClosed) this.#spawn();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.kill();
  }

  #spawn(): void {
    const child = spawn(process.execPath, [fileURLToPath(this.entry)], {
      env: { PATH: process.env.PATH, HOST: '127.0.0.1', PORT: `${this.port}`, ...this.environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        output = `${output}${chunk}`.slice(-KEPT_OUTPUT);
        if (this.#child === child && output.includes('"msg":"listening"')) this.#isListening = true;
      });
    }
    child.once('exit', async () => {
      if (this.#child !== child) return;
      if (this.#isListening) this.deaths += 1;
      this.lastWords = output;
      this.#isListening = false;
      await pause(RESTART_AFTER_MS);
      if (this.#child === child && !this.#isClosed) this.#spawn();
    });
  }
}
