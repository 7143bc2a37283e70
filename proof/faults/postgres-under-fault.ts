import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { Wire } from '../../testkit/proxy/wire.js';
import { type PostgresServer, startPostgres } from '../../testkit/servers/postgres.js';
import { pause, until } from '../../testkit/time/until.js';

const DATABASE = 'idempay';
const GONE_DEADLINE_MS = 20_000;

/** A PostgreSQL server that waits for its disk as in production, behind a wire. */
export class PostgresUnderFault {
  private constructor(
    readonly wire: Wire,
    private readonly server: PostgresServer,
    private readonly dataFolder: string,
  ) {}

  static async start(): Promise<PostgresUnderFault> {
    const server = await startPostgres();
    const url = await server.createDatabase(DATABASE);
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const { rows } = await client.query<{ data_directory: string }>('SHOW data_directory');
    await client.end();
    return new PostgresUnderFault(await Wire.to(server.port), server, rows[0]?.data_directory as string);
  }

  get url(): string {
    return this.server.url(DATABASE).replace(/:\d+\//, `:${this.wire.port}/`);
  }

  /** SIGINT: open transactions are rolled back, then a clean end and a clean start. */
  async restartFast(): Promise<void> {
    await this.#end('SIGINT');
    await this.server.start();
  }

  /** SIGQUIT: no clean-up; the start recovers from the log. */
  async restartImmediately(): Promise<void> {
    await this.#end('SIGQUIT');
    await this.server.start();
  }

  /** SIGKILL of the postmaster; its children notice, and the start recovers from the log. */
  async killAndRestart(): Promise<void> {
    await this.#end('SIGKILL');
    await this.server.start();
  }

  /** SIGKILL of one process that serves a client: the postmaster ends all others and recovers by itself. False: none is there. */
  async killBackend(): Promise<boolean> {
    const backend = (await this.#children()).findLast(servesClient);
    if (backend === undefined) return false;
    signal(backend, 'SIGKILL');
    return true;
  }

  /** SIGSTOP of all its processes, and SIGCONT. */
  async pause(ms: number): Promise<void> {
    const all = [await this.#postmaster(), ...(await this.#children())];
    for (const pid of all) signal(pid, 'SIGSTOP');
    await pause(ms);
    for (const pid of all) signal(pid, 'SIGCONT');
  }

  async close(): Promise<void> {
    await this.wire.close();
    await this.server.close();
  }

  /** Resolves when no process of it is left: a start before that would be refused. */
  async #end(name: NodeJS.Signals): Promise<void> {
    const all = [await this.#postmaster(), ...(await this.#children())];
    signal(all[0] as number, name);
    await until('PostgreSQL to be gone', GONE_DEADLINE_MS, () => !all.some(isRunning));
  }

  async #postmaster(): Promise<number> {
    return Number((await readFile(join(this.dataFolder, 'postmaster.pid'), 'utf8')).split('\n')[0]);
  }

  async #children(): Promise<number[]> {
    const postmaster = await this.#postmaster();
    const text = await readFile(`/proc/${postmaster}/task/${postmaster}/children`, 'utf8').catch(() => '');
    return text.split(' ').filter(Boolean).map(Number);
  }
}

/** By the title that it gives itself: the user and the database, where its own helpers name their work. */
function servesClient(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(` ${DATABASE} `);
  } catch {
    return false;
  }
}

/** One that has ended may still be waited for by its parent: it holds nothing any more. */
function isRunning(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

/** A process that has ended meanwhile needs no signal. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
