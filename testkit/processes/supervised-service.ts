import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import type { Disturbances } from '../history/disturbances.js';
import { SERVICE } from '../programs.js';
import { pause, until } from '../time/until.js';
import { portOutOfTheWay } from './reference-processor.js';

/** A start that fails, because what it needs is away just now, is tried again: that is what supervisors are for. */
const START_AGAIN_MS = 150;
/** With all that it needs at hand. */
const UP_DEADLINE_MS = 60_000;
const POLL_MS = 15;
const MOST_OUTPUT = 4_000;

export interface SupervisedOptions {
  readonly name: string;
  readonly environment: Readonly<Record<string, string>>;
  /** A command that becomes the program named after it: the process id stays the service's. */
  readonly launcher?: readonly string[];
  /** The file that node runs; without it the service as it is shipped. */
  readonly program?: string;
  /** What is done to it is noted here, under its name. */
  readonly disturbances: Disturbances;
  /** It was killed: by us, or by itself at this crash point. */
  readonly onKilled?: (crashPoint: string | undefined) => void;
  /** It ended although nobody had anything to do with it. */
  readonly onOwnEnd?: (sentence: string) => void;
}

/** One process at an address that stays the same; started again whenever it ends. */
export class SupervisedService {
  /** Where the process that runs will end itself: `point:nth`. */
  crashAt: string | undefined;
  #child: ChildProcess | undefined;
  #isUp = false;
  #stopped = false;
  #next: { downMs: number; crashAt?: string | undefined } = { downMs: 0 };
  #supervising: Promise<void> = Promise.resolve();
  #endDisturbance: () => void;

  private constructor(
    private readonly options: SupervisedOptions,
    readonly port: number,
  ) {
    this.#endDisturbance = options.disturbances.begin(options.name);
  }

  /** Resolves before it serves. */
  static async create(options: SupervisedOptions): Promise<SupervisedService> {
    const service = new SupervisedService(options, await portOutOfTheWay());
    service.#supervising = service.#supervise();
    return service;
  }

  get name(): string {
    return this.options.name;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Resolves when it serves, however often it has to be started until then. */
  async up(): Promise<void> {
    await until(`${this.name} to be up`, UP_DEADLINE_MS, () => this.#isUp);
  }

  /** SIGKILL; nothing of the process runs any more when this resolves. Started again after `downMs`, to crash there. */
  async kill(downMs = 0, crashAt?: string): Promise<void> {
    this.#next = { downMs, crashAt };
    const child = this.#child;
    if (!child) return;
    const ended = once(child, 'close');
    this.#child = undefined;
    this.#isDown();
    this.options.onKilled?.(undefined);
    child.kill('SIGKILL');
    await ended;
  }

  /** SIGSTOP: it takes connections, as the kernel does that, and answers nothing. */
  async pause(ms: number): Promise<void> {
    const paused = this.#child;
    await this.options.disturbances.during(this.name, async () => {
      paused?.kill('SIGSTOP');
      await pause(ms);
      paused?.kill('SIGCONT');
    });
  }

  async close(): Promise<void> {
    this.#stopped = true;
    const child = this.#child;
    this.#child = undefined;
    child?.kill('SIGKILL');
    await this.#supervising;
  }

  async #supervise(): Promise<void> {
    while (!this.#stopped) {
      const { downMs, crashAt } = this.#next;
      this.#next = { downMs: START_AGAIN_MS };
      if (downMs > 0) await pause(downMs);
      if (!this.#stopped) await this.#run(crashAt);
    }
  }

  /** From its start to its end. */
  async #run(crashAt: string | undefined): Promise<void> {
    const { environment, launcher = [], program = SERVICE, onKilled, onOwnEnd } = this.options;
    const [command = process.execPath, ...args] = [...launcher, process.execPath, program];
    const child = spawn(command, args, {
      env: { PATH: process.env.PATH, HOST: '127.0.0.1', ...environment, PORT: `${this.port}`, CRASH_AT: crashAt },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const ended = once(child, 'close');
    let output = '';
    child.stderr?.on('data', (chunk: Buffer) => {
      output = (output + chunk).slice(-MOST_OUTPUT);
    });
    this.#child = child;
    this.crashAt = crashAt;

    while (this.#child === child && !hasEnded(child) && !this.#isUp) {
      if ((await answers(this.port)) && this.#child === child && !hasEnded(child)) {
        this.#isUp = true;
        this.#endDisturbance();
      } else await pause(POLL_MS);
    }
    const wasUp = this.#isUp;
    await ended;
    this.crashAt = undefined;
    if (this.#child !== child) return;
    this.#child = undefined;
    this.#isDown();
    if (crashAt && child.signalCode === 'SIGKILL') onKilled?.(crashAt.split(':')[0]);
    else if (wasUp) onOwnEnd?.(`${this.name} ended by itself: ${child.exitCode ?? child.signalCode} ${output}`);
  }

  #isDown(): void {
    if (this.#isUp) this.#endDisturbance = this.options.disturbances.begin(this.name);
    this.#isUp = false;
  }
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port });
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
