import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type PostgresServer, runSql, startPostgres } from '../../testkit/servers/postgres.js';
import type { BackUp, Restore } from '../../testkit/servers/postgres-backups.js';
import { startTcpProxy, type TcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { pause, until } from '../../testkit/time/until.js';
import type { TransactionRow } from './store-of-record.js';

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
    const [setting] = await runSql<{ data_directory: string }>(url, 'SHOW data_directory');
    return new PostgresUnderFault(await startTcpProxy(server.port), server, setting?.data_directory as string);
  }

  get url(): string {
    return this.proxy.through(this.server.url(DATABASE));
  }

  /**
   * SIGINT rolls open transactions back and ends cleanly; SIGQUIT and SIGKILL do not, and the start recovers from the log.
   * Resolves when it serves again.
   */
  async restart(name: 'SIGINT' | 'SIGQUIT' | 'SIGKILL'): Promise<void> {
    const [postmaster, ...children] = this.#processes();
    signal(postmaster as number, name);
    // A start before no process of it is left would be refused.
    await untilGone([postmaster as number, ...children]);
    await this.server.start();
  }

  /**
   * SIGKILL of one process that serves a client: the postmaster ends all others and recovers by itself. Resolves when it serves
   * again; false: none is there.
   */
  async killBackend(): Promise<boolean> {
    const [, ...children] = this.#processes();
    // By the title that it gives itself, with the user and the database; its own helpers name their work instead.
    const servesClient = (pid: number) => textOf(`/proc/${pid}/cmdline`).includes(` ${DATABASE} `);
    const backend = children.findLast(servesClient);
    if (backend === undefined) return false;
    signal(backend, 'SIGKILL');
    await untilGone(children);
    await this.server.start();
    return true;
  }

  /** SIGSTOP of all its processes, and SIGCONT. */
  async pause(ms: number): Promise<void> {
    const all = this.#processes();
    for (const pid of all) signal(pid, 'SIGSTOP');
    await pause(ms);
    for (const pid of all) signal(pid, 'SIGCONT');
  }

  async backUp(how: BackUp): Promise<Restore> {
    return await how(this.server, DATABASE);
  }

  async transactions(): Promise<TransactionRow[]> {
    const text = 'SELECT id::float8 AS id, status, from_account AS from, to_account AS to FROM idempay.transactions';
    return await runSql(this.server.url(DATABASE), text);
  }

  async paymentKeys(): Promise<ReadonlySet<string>> {
    const rows = await runSql<{ key: string }>(this.server.url(DATABASE), 'SELECT key FROM idempay.payments');
    return new Set(rows.map(({ key }) => key));
  }

  async close(): Promise<void> {
    await this.proxy.close();
    await this.server.close();
  }

  /** The postmaster and its children. */
  #processes(): number[] {
    const postmaster = textOf(join(this.dataFolder, 'postmaster.pid')).split('\n')[0];
    const children = textOf(`/proc/${postmaster}/task/${postmaster}/children`).split(' ');
    return [postmaster, ...children].filter(Boolean).map(Number);
  }
}

/** A process that its parent waits for holds nothing any more. */
function untilGone(pids: readonly number[]): Promise<unknown> {
  const isGone = (pid: number) => /^$|^\d+ \(.*\) [ZX]/.test(textOf(`/proc/${pid}/stat`));
  return until('PostgreSQL to be gone', GONE_DEADLINE_MS, () => pids.every(isGone));
}

/** Empty if there is no such file. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
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
