import { Cluster, type Redis } from 'ioredis';
import type { Clock } from '../../../platform/clock.js';
import { StoreUnavailable } from '../../../platform/faults.js';
import type { CacheEpochs } from '../../shared/cache-epochs.js';
import { infoOf } from './info.js';
import { mastersOf, type RedisClient } from './masters.js';

/** A process that keeps its connections through a move of the address learns of it within about this time. */
const WATCH_EVERY_MS = 1_000;
/** Looks during which a connection was lost each time; then the caller gives up. */
const MAX_LOOKS = 3;

/** The location of the cache. Scripts refuse any other master, so a look at it counts for every call until it is found wrong. */
export interface CacheLocation {
  readonly epoch: number;
  /** The replication ids, in one text. */
  readonly masters: string;
}

/** The masters of Redis that this process is connected to, and the epoch of the cache in them. */
export interface CacheLocations {
  /** Undefined after a connection was lost, until the new one has been looked at. */
  readonly current: CacheLocation | undefined;
  /** Asks the masters and the store of record. Rejects when one of them cannot be asked. */
  look(): Promise<CacheLocation>;
  /** A master was found that is not in it. */
  forget(location: CacheLocation): void;
}

/**
 * A new connection may lead to another server under the same address. So it is looked at before the cache is used over it, and a master
 * that is not in the present epoch begins a new one, in which nothing that was cached before counts.
 */
export class CacheMasters implements CacheLocations {
  private known: (CacheLocation & { readonly seen: readonly string[] }) | undefined;
  /** One more with each connection that was lost. */
  private losses = 0;
  private looking: Promise<CacheLocation> | undefined;
  private stopped = false;
  private cancelNext = () => {};

  constructor(
    private readonly client: RedisClient,
    private readonly epochs: CacheEpochs,
    private readonly clock: Clock,
  ) {
    if (client instanceof Cluster) {
      for (const node of client.nodes()) this.listen(node);
      client.on('+node', (node: Redis) => this.listen(node));
    } else this.listen(client);
    this.lookSoon();
    this.scheduleNext();
  }

  get current(): CacheLocation | undefined {
    return this.known;
  }

  look(): Promise<CacheLocation> {
    this.looking ??= this.lookOnce().finally(() => {
      this.looking = undefined;
    });
    return this.looking;
  }

  forget(location: CacheLocation): void {
    if (this.known !== location) return;
    this.known = undefined;
    this.lookSoon();
  }

  stop(): void {
    this.stopped = true;
    this.cancelNext();
  }

  private listen(server: Redis): void {
    server.on('close', () => {
      this.losses += 1;
      this.known = undefined;
      // The other masters of a Cluster are still there.
      if (this.client instanceof Cluster) this.lookSoon();
    });
    server.on('ready', () => this.lookSoon());
  }

  /** If it fails, the watch or a write looks next. */
  private lookSoon(): void {
    if (!this.stopped) this.look().catch(() => {});
  }

  private async lookOnce(): Promise<CacheLocation> {
    for (let looks = 0; looks < MAX_LOOKS; looks += 1) {
      const losses = this.losses;
      const seen = await this.connectedMasters();
      const { epoch, masters } = await this.epochs.of(seen);
      if (losses !== this.losses) continue;
      this.known = { epoch, masters: masters.join(' '), seen };
      return this.known;
    }
    throw new StoreUnavailable('unchanged', 'connections to Redis are lost again and again');
  }

  /** The master, or those masters of a Cluster that answer. */
  private async connectedMasters(): Promise<readonly string[]> {
    const asked = mastersOf(this.client).map((server) => infoOf(server, 'replication'));
    const infos = (await Promise.allSettled(asked)).flatMap((info) =>
      info.status === 'fulfilled' ? [info.value] : [],
    );
    const ids = infos.flatMap((info) => (info.get('role') === 'master' ? [info.get('master_replid') ?? ''] : []));
    if (ids.length === 0) throw new StoreUnavailable('unchanged', 'no master of Redis answers');
    return ids.sort();
  }

  private scheduleNext(): void {
    if (this.stopped) return;
    this.cancelNext = this.clock.after(WATCH_EVERY_MS, () => {
      this.watch()
        .catch(() => {})
        .finally(() => this.scheduleNext());
    });
  }

  private async watch(): Promise<void> {
    const { known, losses } = this;
    if (!known) return void (await this.look());
    const latest = await this.epochs.latest();
    if (this.known !== known || this.losses !== losses || latest.epoch === known.epoch) return;
    if (known.seen.every((id) => latest.masters.includes(id))) {
      this.known = { epoch: latest.epoch, masters: latest.masters.join(' '), seen: known.seen };
      return;
    }
    // Others found another master under the same address, and we have kept a connection to the one of before: it is made anew.
    this.known = undefined;
    if (this.client instanceof Cluster) await this.look();
    else this.client.disconnect(true);
  }
}
