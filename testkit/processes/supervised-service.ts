import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { HttpPool } from '../client/http-pool.js';
import { SERVICE } from '../programs.js';
import { pause, until } from '../time/until.js';
import { portOutOfTheWay } from './reference-processor.js';

/** A start that fails, because what it needs is away just now, is tried again: that is what supervisors are for. */
const START_AGAIN_MS = 150;
/** With all that it needs at hand. */
const UP_DEADLINE_MS = 60_000;
const POLL_MS = 15;
const MOST_OUTPUT = 4_000;

export interface ServiceEvents {
  /** It was killed: by us, or by itself at this crash point. */
  killed(crashPoint: string | undefined): void;
  /** It ended although nobody had anything to do with it. */
  failed(sentence: string): void;
}

/** One service process at an address that stays the same; started again whenever it ends. */
export class SupervisedService {
  readonly pool: HttpPool;
  /** Moves whenever it ends, is paused or goes on: a request during which it did not move met one process, awake. */
  disturbed = 0;
  /** Where the process that runs will end itself: `point:nth`. */
  crashAt: string | undefined;
  #child: ChildProcess | undefined;
  #isUp = false;
  #stopped = false;
  #next: { downMs: number; crashAt?: string | undefined } = { downMs: 0 };
  #supervising: Promise<void> = Promise.resolve();

  private constructor(
    readonly name: string,
    readonly port: number,
    private readonly environment: Readonly<Record<string, string>>,
    private readonly launcher: readonly string[],
    private readonly events: ServiceEvents,
  ) {
    this.pool = new HttpPool(port);
  }

  static async create(
    name: string,
    environment: Readonly<Record<string, string>>,
    launcher: readonly string[],
    events: ServiceEvents,
  ): Promise<SupervisedService> {
    const service = new SupervisedService(name, await portOutOfTheWay(), environment, launcher, events);
    service.#supervising = service.#supervise();
    return service;
  }

  /** Resolves when it serves, however often it has to be started until then. */
  async up(): Promise<void> {
    await until(`${this.name} to be up`, UP_DEADLINE_MS, () => this.#isUp);
  }

  /** SIGKILL; nothing of the process runs any more when this resolves. Started again after `downMs`, with that trap. */
  async kill(downMs: number, crashAt?: string): Promise<void> {
    this.#next = { downMs, crashAt };
    const child = this.#child;
    if (!child) return;
    const ended = once(child, 'close');
    this.#child = undefined;
    this.#isUp = false;
    this.events.killed(undefined);
    child.kill('SIGKILL');
    await ended;
  }

  /** SIGSTOP: it takes connections, as the kernel does that, and answers nothing. */
  async pause(ms: number): Promise<void> {
    const paused = this.#child;
    this.disturbed += 1;
    paused?.kill('SIGSTOP');
    await pause(ms);
    this.disturbed += 1;
    paused?.kill('SIGCONT');
  }

  async close(): Promise<void> {
    this.#stopped = true;
    this.pool.close();
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
    const [command = process.execPath, ...args] = [...this.launcher, process.execPath, SERVICE];
    const child = spawn(command, args, {
      env: { PATH: process.env.PATH, ...this.environment, PORT: `${this.port}`, CRASH_AT: crashAt },
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
      if (await answers(this.port)) this.#isUp = this.#child === child && !hasEnded(child);
      else await pause(POLL_MS);
    }
    const wasUp = this.#isUp;
    await ended;
    this.disturbed += 1;
    this.#isUp = false;
    this.crashAt = undefined;
    if (this.#child !== child) return;
    this.#child = undefined;
    if (crashAt && child.signalCode === 'SIGKILL') this.events.killed(crashAt.split(':')[0]);
    else if (wasUp) this.events.failed(`${this.name} ended by itself: ${child.exitCode ?? child.signalCode} ${output}`);
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
