import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { APPEND_ONLY } from '../../testkit/deployments/distributed-stores.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { startTcpProxy, type TcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { pause, until } from '../../testkit/time/until.js';

const SETTINGS = [...APPEND_ONLY, '--repl-diskless-sync-delay', '0'];
const CAUGHT_UP_DEADLINE_MS = 30_000;

/** `folder` is ours, so that it can be emptied. */
type Member = RedisServer & { readonly folder: string };

/** A Redis master with one replica, behind a proxy that leads to whichever is master. */
export class RedisPair {
  private constructor(
    readonly proxy: TcpProxy,
    private master: Member,
    private replica: Member,
  ) {}

  static async start(): Promise<RedisPair> {
    const [master, replica] = await Promise.all([startMember(), startMember()]);
    await replica.client.replicaof('127.0.0.1', master.port);
    return new RedisPair(await startTcpProxy(master.port), master, replica);
  }

  get url(): string {
    return this.proxy.through(this.master.url);
  }

  /** Each acknowledged write is in its file: a killed process takes none of them with it. */
  async killAndRestart(how?: 'empty'): Promise<void> {
    const { folder } = this.master;
    await this.master.kill();
    if (how) for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true, force: true });
    await this.master.start();
  }

  async flush(withScripts: boolean): Promise<void> {
    await this.master.client.flushall();
    if (withScripts) await this.master.client.script('FLUSH');
  }

  async pause(ms: number): Promise<void> {
    this.master.signal('SIGSTOP');
    await pause(ms);
    this.master.signal('SIGCONT');
  }

  /** The replica has everything that the master had a moment ago. */
  async caughtUp(): Promise<void> {
    const written = offsetIn('master_repl_offset', await this.master.client.info('replication'));
    await until('the replica to catch up', CAUGHT_UP_DEADLINE_MS, async () => {
      const info = await this.replica.client.info('replication');
      return info.includes('master_link_status:up') && offsetIn('slave_repl_offset', info) >= written;
    });
  }

  /** Only the master's own end: for a failover that nobody planned. */
  killMaster(): Promise<void> {
    return this.master.kill();
  }

  /** From here on the replica misses what the master writes: it is stale when it is promoted. */
  async detachReplica(): Promise<void> {
    await this.replica.client.replicaof('NO', 'ONE');
  }

  /** The replica becomes master, and the old master, started again if it was killed, its replica. */
  async failOver(): Promise<void> {
    await this.detachReplica();
    [this.master, this.replica] = [this.replica, this.master];
    this.proxy.leadTo(this.master.port);
    const old = this.replica;
    if ((await old.client.ping().catch(() => '')) !== 'PONG') await old.start();
    await old.client.replicaof('127.0.0.1', this.master.port);
  }

  async close(): Promise<void> {
    await this.proxy.close();
    for (const member of [this.master, this.replica]) {
      await member.close();
      await rm(member.folder, { recursive: true, force: true });
    }
  }
}

async function startMember(): Promise<Member> {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-faults-redis-'));
  return Object.assign(await startRedis([...SETTINGS, '--dir', folder]), { folder });
}

const offsetIn = (name: string, info: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
