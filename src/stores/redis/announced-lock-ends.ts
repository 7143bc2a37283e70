import type { Redis } from 'ioredis';
import { type Clock, sleep } from '../../platform/clock.js';
import { EndListeners } from '../shared/end-listeners.js';
import { listenerBeside, reconnectDelayMs } from './connection/client.js';
import { withoutCommand } from './connection/fault.js';
import type { RedisClient } from './connection/masters.js';

/** A healthy server answers a subscription sooner, also over TLS and a long distance. Without one, waiters look again. */
const SUBSCRIBE_WAIT_MS = 300;
/** While there are waiters, the connection is pinged this often, and closed when no reply comes. */
const PING_INTERVAL_MS = 1_000;
/** A server that refuses the subscription refuses it until an operator grants the right. */
const REFUSED_RETRY_MS = 10_000;

/**
 * The ends of watched locks, as `finish.lua` and `release.lua` of any process announce them: one connection for all
 * listeners, opened for the first and kept. An end that is announced without a subscription is lost, so each new
 * subscription notifies all listeners once.
 */
export class AnnouncedLockEnds {
  private readonly listeners = new EndListeners();
  private closed = false;
  private server: Redis | undefined;
  /** The latest attempt to subscribe: resolves when it has succeeded or failed, or takes too long. */
  private attempted: Promise<unknown> | undefined;
  private pingedAt = Number.NEGATIVE_INFINITY;

  /** `onRefused` is called once when the server refuses the subscription. */
  constructor(
    private readonly client: RedisClient,
    private readonly channel: string,
    private readonly clock: Clock,
    private readonly onRefused: (error: Error) => void,
  ) {}

  /** Resolves soon, and never rejects. With a subscription, later listeners miss no end. */
  async subscribed(): Promise<void> {
    if (!this.attempted) void this.keepSubscribed();
    this.ping();
    await this.attempted;
  }

  /** Returns what ends it. */
  listen(lock: string, onEnd: () => void): () => void {
    return this.listeners.add(lock, onEnd);
  }

  close(): void {
    this.closed = true;
    this.server?.disconnect();
  }

  private async keepSubscribed(): Promise<void> {
    let failures = 0;
    let refusedBefore = false;
    while (!this.closed) {
      const subscribing = this.subscribe();
      this.attempted = Promise.race([subscribing, sleep(this.clock, SUBSCRIBE_WAIT_MS)]);
      const { ended, refused } = await subscribing;
      await ended;
      failures = ended ? 1 : failures + 1;
      if (refused && !refusedBefore) this.onRefused(refused);
      refusedBefore = refused !== undefined;
      const pauseMs = refused ? REFUSED_RETRY_MS : reconnectDelayMs(failures);
      await sleep(this.clock, pauseMs);
    }
  }

  /** Resolves when it is known whether the subscription is in force; if so, with a promise of its end. */
  private async subscribe(): Promise<{ readonly ended?: Promise<void>; readonly refused?: Error }> {
    const server = listenerBeside(this.client);
    if (!server) return {};
    this.server = server;
    // The main client reports the faults of the server.
    server.on('error', () => {});
    server.on('message', (_channel, lock) => this.listeners.notify(lock));
    const ended = new Promise<void>((resolve) => server.once('end', resolve));
    try {
      await server.connect();
      await server.subscribe(this.channel);
    } catch (error) {
      const refused = server.status === 'ready' && isRefusal(error) ? { refused: withoutCommand(error) } : {};
      server.disconnect();
      return refused;
    }
    this.listeners.notifyAll();
    return { ended };
  }

  private ping(): void {
    const now = this.clock.monotonic();
    if (this.server?.status !== 'ready' || now - this.pingedAt < PING_INTERVAL_MS) return;
    this.pingedAt = now;
    // The client gives up a connection that does not answer (`socketTimeout`).
    this.server.ping().catch(() => {});
  }
}

function isRefusal(error: unknown): error is Error {
  return (error as Error).name === 'ReplyError';
}
