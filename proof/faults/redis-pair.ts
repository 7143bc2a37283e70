import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { startTcpProxy, type TcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { until } from '../../testkit/time/until.js';

/** As `compose.yaml` runs Redis: what it acknowledged survives the end of its process. */
const SETTINGS = ['--appendonly', 'yes', '--appendfsync', 'everysec', '--repl-diskless-sync-delay', '0'];

const CAUGHT_UP_DEADLINE_MS = 30_000;

interface Member {
  readonly server: RedisServer;
  readonly folder: string;
}

/** A Redis master with one replica, behind a proxy that leads to whichever is master. */
export class RedisPair {
  private constructor(
    readonly proxy: TcpProxy,
    private master: Member,
    private replica: Member,
  ) {}

  static async start(): Promise<RedisPair> {
    const [master, replica] = await Promise.all([startMember(), startMember()]);
    await follow(replica, master);
    return new RedisPair(await startTcpProxy(master.server.port), master, replica);
  }

  get url(): string {
    return this.proxy.through(this.master.server.url);
  }

  /** What it acknowledged is in its file: a killed process takes nothing of that with it. */
  async killAndRestart(): Promise<void> {
    await this.master.server.kill();
    await this.master.server.start();
  }

  async killAndRestartEmpty(): Promise<void> {
    await this.master.server.kill();
    for (const name of await readdir(this.master.folder)) {
      await rm(join(this.master.folder, name), { recursive: true, force: true });
    }
    await this.master.server.start();
  }

  async flush(withScripts: boolean): Promise<void> {
    await this.master.server.client.flushall();
    if (withScripts) await this.master.server.client.script('FLUSH');
  }

  signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    this.master.server.signal(name);
  }

  /** The replica has everything that the master had a moment ago. */
  async caughtUp(): Promise<void> {
    const { client } = this.replica.server;
    await until('the replica to catch up', CAUGHT_UP_DEADLINE_MS, async () =>
      (await client.info('replication')).includes('master_link_status:up'),
    );
  }

  /** Only the master's own end: for a failover that nobody planned. */
  async killMaster(): Promise<void> {
    await this.master.server.kill();
  }

  /** From here on the replica misses what the master writes: it is stale when it is promoted. */
  async detachReplica(): Promise<void> {
    await this.replica.server.client.replicaof('NO', 'ONE');
  }

  /** The replica becomes master, and the old master, started again if it was killed, its replica. */
  async failOver(): Promise<void> {
    await this.detachReplica();
    [this.master, this.replica] = [this.replica, this.master];
    this.proxy.leadTo(this.master.server.port);
    const old = this.replica.server;
    if ((await old.client.ping().catch(() => '')) !== 'PONG') await old.start();
    await follow(this.replica, this.master);
  }

  async close(): Promise<void> {
    await this.proxy.close();
    for (const { server, folder } of [this.master, this.replica]) {
      await server.close();
      await rm(folder, { recursive: true, force: true });
    }
  }
}

/** In a folder of ours, so that it can be emptied. */
async function startMember(): Promise<Member> {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-faults-redis-'));
  return { folder, server: await startRedis([...SETTINGS, '--dir', folder]) };
}

async function follow(replica: Member, master: Member): Promise<void> {
  await replica.server.client.replicaof('127.0.0.1', master.server.port);
}
