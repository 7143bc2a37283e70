import { Agent } from 'node:http';
import { ask } from '../client/http-client.js';
import type { Disturbances } from '../history/disturbances.js';
import { SERVICE } from '../programs.js';
import { freePort } from '../servers/server-process.js';
import { pause, until } from '../time/until.js';
import { crashAt } from './crash-points.js';
import { spawnProgram } from './service.js';

/** A start that fails because a dependency is down is tried again after this time, as a supervisor does. */
const START_AGAIN_MS = 150;
const UP_DEADLINE_MS = 60_000;
const MOST_OUTPUT = 4_000;
/** A process whose connections are broken off because it ends. */
const ENDS_WITHIN_MS = 200;

interface SupervisedOptions {
  readonly name: string;
  readonly environment: Readonly<Record<string, string>>;
  /** A command that becomes the program named after it: the process id stays the service's. */
  readonly launcher?: readonly string[];
  readonly program?: string;
  readonly disturbances: Disturbances;
  /** It was killed: by us, or by itself at this crash point. */
  readonly onKilled?: (crashPoint: string | undefined) => void;
  /** It ended by itself, without a kill or a crash point. */
  readonly onOwnEnd?: (sentence: string) => void;
}

/** One process at an address that stays the same; started again whenever it ends. */
export class SupervisedService {
  /** The point at which the running process will end itself: `point:nth`. */
  nextCrash: string | undefined;
  readonly name: string;
  readonly url: string;
  #running: ReturnType<typeof spawnProgram> | undefined;
  #isUp = false;
  #stopped = false;
  #next: { downMs: number; nextCrash?: string | undefined; after?: Promise<unknown> } = { downMs: 0 };
  #supervising: Promise<void> = Promise.resolve();
  #endDisturbance: () => void;

  private constructor(
    private readonly options: SupervisedOptions,
    private readonly port: number,
  ) {
    this.name = options.name;
    this.url = `http://127.0.0.1:${port}`;
    this.#endDisturbance = options.disturbances.begin(options.name);
  }

  static async create(options: SupervisedOptions): Promise<SupervisedService> {
    const service = new SupervisedService(options, await freePort());
    service.#supervising = service.#supervise();
    return service;
  }

  /** Resolves when it serves, however often it has to be started until then. */
  async up(): Promise<void> {
    await until(`${this.name} to be up`, UP_DEADLINE_MS, () => this.#isUp);
  }

  /** SIGKILL; nothing of the process runs any more when this resolves. Started again after `downMs`, to crash there. */
  async kill(downMs = 0, nextCrash?: string): Promise<void> {
    this.#next = { downMs, nextCrash };
    if (!this.#running) return;
    this.options.onKilled?.(undefined);
    await this.#end();
  }

  /** The same, and started again only after `after`. */
  async killUntil(after: Promise<unknown>): Promise<void> {
    this.#next = { downMs: 0, after };
    if (!this.#running) return;
    this.options.onKilled?.(undefined);
    await this.#end();
  }

  /** SIGSTOP: it takes connections, as the kernel does that, and answers nothing. */
  async pause(ms: number): Promise<void> {
    const child = this.#running?.child;
    await this.options.disturbances.during(this.name, async () => {
      child?.kill('SIGSTOP');
      await pause(ms);
      child?.kill('SIGCONT');
    });
  }

  async close(): Promise<void> {
    this.#stopped = true;
    await this.#end();
    await this.#supervising;
  }

  async #end(): Promise<void> {
    const running = this.#running;
    this.#isDown();
    running?.child.kill('SIGKILL');
    await running?.ended;
  }

  async #supervise(): Promise<void> {
    while (!this.#stopped) {
      const { downMs, nextCrash, after } = this.#next;
      this.#next = { downMs: START_AGAIN_MS };
      if (downMs > 0) await pause(downMs);
      await after;
      if (!this.#stopped) await this.#run(nextCrash);
    }
  }

  async #run(nextCrash: string | undefined): Promise<void> {
    const { environment, launcher, program = SERVICE, onKilled, onOwnEnd } = this.options;
    const settings = { HOST: '127.0.0.1', ...environment, PORT: `${this.port}`, ...(nextCrash && crashAt(nextCrash)) };
    const running = spawnProgram(program, settings, launcher);
    this.#running = running;
    this.nextCrash = nextCrash;
    let output = '';
    running.child.stdout.resume();
    running.child.stderr.on('data', (chunk: Buffer) => {
      output = (output + chunk).slice(-MOST_OUTPUT);
    });
    void until('an answer', Number.POSITIVE_INFINITY, () => this.#running !== running || isServing(this.url)).then(
      () => {
        if (this.#running !== running) return;
        this.#isUp = true;
        this.#endDisturbance();
      },
    );
    const { code, signal } = await running.ended;
    this.nextCrash = undefined;
    if (this.#running !== running) return;
    const wasUp = this.#isUp;
    this.#isDown();
    if (nextCrash && signal === 'SIGKILL') onKilled?.(nextCrash.split(':')[0]);
    else if (wasUp) onOwnEnd?.(`${this.name} ended by itself: ${code ?? signal} ${output}`);
  }

  #isDown(): void {
    if (this.#isUp) this.#endDisturbance = this.options.disturbances.begin(this.name);
    this.#isUp = false;
    this.#running = undefined;
  }
}

/**
 * Any answer counts, except that it is starting, because other programs have no probes. A broken connection counts too, unless the
 * process ends: a running process that breaks its connections must be found as a failure.
 */
const isServing = (url: string) =>
  ask(`${url}/readyz`, { agent: new Agent() }).then(
    ({ status, text }) => status !== 503 || !text.includes('is starting'),
    ({ code }: NodeJS.ErrnoException) => code !== 'ECONNREFUSED' && pause(ENDS_WITHIN_MS).then(() => true),
  );
