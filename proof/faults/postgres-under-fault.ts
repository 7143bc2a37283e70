import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { type PostgresServer, startPostgres } from '../../testkit/servers/postgres.js';
import { startTcpProxy, type TcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { pause, until } from '../../testkit/time/until.js';

const DATABASE = 'idempay';
const GONE_DEADLINE_MS = 20_000;

/** A PostgreSQL server that waits for its disk as in production, behind a proxy. */
export class PostgresUnderFault {
  private constructor(
    readonly proxy: TcpProxy,
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
    return new PostgresUnderFault(await startTcpProxy(server.port), server, rows[0]?.data_directory as string);
  }

  get url(): string {
    return this.proxy.through(this.server.url(DATABASE));
  }

  /**
   * SIGINT rolls open transactions back and ends cleanly; SIGQUIT and SIGKILL do not, and the start recovers from the log.
   * Resolves when it serves again.
   */
  async restart(name: 'SIGINT' | 'SIGQUIT' | 'SIGKILL'): Promise<void> {
    const all = [await this.#postmaster(), ...(await this.#children())];
    signal(all[0] as number, name);
    // A start before no process of it is left would be refused.
    await until('PostgreSQL to be gone', GONE_DEADLINE_MS, () => !all.some(isRunning));
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
    await this.proxy.close();
    await this.server.close();
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
