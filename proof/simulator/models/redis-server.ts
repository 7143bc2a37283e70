import { createHash } from 'node:crypto';
import { compileLua, type LuaScript, type LuaValue } from './lua.js';

interface Stored {
  readonly fields: Map<string, string>;
  /** Milliseconds since the epoch, by the server's clock. */
  expiresAt: number | undefined;
}

/** As ioredis names what a server answers when it refuses a command. */
class ReplyError extends Error {
  override readonly name = 'ReplyError';
}

export interface RedisEvents {
  /** The life of a key was set; milliseconds from now. */
  lifeSet?(key: string, ms: number): void;
  /** A script has deleted a hash whose owner it was not given. */
  deletedFor?(key: string, holder: string): void;
}

/**
 * A Redis server: hashes with a life, the few commands that the adapters use, and their own scripts (`scripts/*.lua`), which it
 * runs as a server does. Its contents can be lost; `now` is its wall clock, in milliseconds.
 */
export class RedisServer {
  /** One more whenever another server takes its place. */
  private servers = 1;
  private data = new Map<string, Stored>();
  private readonly scripts = new Map<string, LuaScript>();
  private readonly subscribers = new Map<(message: string) => void, { channel: string; ended: () => void }>();
  private readonly counted = { hits: 0, misses: 0, expired: 0 };
  /** The clock stands while a script runs. */
  private frozenAt: number | undefined;

  constructor(
    private readonly now: () => number,
    private readonly events: RedisEvents = {},
  ) {}

  evalsha(digest: string, keys: readonly string[], parameters: readonly string[]): unknown {
    const script = this.scripts.get(digest);
    if (!script) throw new ReplyError('NOSCRIPT No matching script. Please use EVAL.');
    return this.run(script, keys, parameters);
  }

  eval(text: string, keys: readonly string[], parameters: readonly string[]): unknown {
    const digest = createHash('sha1').update(text).digest('hex');
    this.scripts.set(digest, compileLua(text));
    return this.evalsha(digest, keys, parameters);
  }

  hash(key: string): ReadonlyMap<string, string> | undefined {
    return this.living(key)?.fields;
  }

  *keys(): Iterable<string> {
    for (const key of this.data.keys()) if (this.living(key)) yield key;
  }

  /** The life that is left in milliseconds; -1: no end, -2: no such key. */
  pttl(key: string): number {
    const stored = this.living(key);
    if (!stored) return -2;
    return stored.expiresAt === undefined ? -1 : Math.max(0, stored.expiresAt - this.time());
  }

  info(): string {
    const { hits, misses, expired } = this.counted;
    const server = 'redis_version:7.0.0\r\nused_memory:1000000\r\nconnected_clients:1\r\nuptime_in_seconds:1';
    const replication = `role:master\r\nmaster_replid:${String(this.servers).padStart(40, '0')}`;
    const stats = `keyspace_hits:${hits}\r\nkeyspace_misses:${misses}\r\nexpired_keys:${expired}`;
    return `${server}\r\n${replication}\r\n${stats}\r\n`;
  }

  subscribe(channel: string, deliver: (message: string) => void, ended: () => void): () => void {
    this.subscribers.set(deliver, { channel, ended });
    return () => this.subscribers.delete(deliver);
  }

  /** Removes all keys, as FLUSHALL does, or those that `isForgotten` names, as an eviction does. */
  forget(isForgotten: (key: string) => boolean = () => true): void {
    for (const key of [...this.data.keys()]) if (isForgotten(key)) this.data.delete(key);
  }

  forgetScripts(): void {
    this.scripts.clear();
  }

  /** Returns what makes a stale replica its successor: all is as it is now, and clients that connect teach it their scripts at once. */
  copy(): () => void {
    const data = structuredClone(this.data);
    return () => {
      this.data = data;
      this.servers += 1;
      const subscribers = [...this.subscribers.values()];
      this.subscribers.clear();
      for (const { ended } of subscribers) ended();
    };
  }

  private run(script: LuaScript, keys: readonly string[], parameters: readonly string[]): unknown {
    this.frozenAt = this.now();
    const call = (name: string, ...values: LuaValue[]) => this.call(name, values.map(String), parameters);
    try {
      const reply = replyOf(script(keys, parameters, { call, pcall: call, error_reply: (err) => ({ err }) }));
      if (reply instanceof ReplyError) throw reply;
      return reply;
    } finally {
      this.frozenAt = undefined;
    }
  }

  private call(name: string, [key = '', ...values]: readonly string[], given: readonly string[]): LuaValue {
    const stored = this.living(key);
    const fields = stored?.fields ?? new Map<string, string>();
    const [first = ''] = values;
    if (name.startsWith('HG') || name === 'HMGET' || name === 'EXISTS') this.counted[stored ? 'hits' : 'misses'] += 1;
    const commands: Readonly<Record<string, () => LuaValue>> = {
      TIME: () => {
        const micros = Math.floor(this.time() * 1000);
        return [String(Math.floor(micros / 1e6)), String(micros % 1e6)];
      },
      INFO: () => this.info(),
      PUBLISH: () => this.publish(key, first),
      EXISTS: () => (stored ? 1 : 0),
      DEL: () => [key, ...values].filter((each) => this.delete(each, given)).length,
      PTTL: () => Math.floor(this.pttl(key)),
      PEXPIRE: () => {
        this.events.lifeSet?.(key, Number(first));
        return this.expireAt(key, this.time() + Number(first));
      },
      PEXPIREAT: () => this.expireAt(key, Number(first)),
      HGET: () => fields.get(first) ?? false,
      HMGET: () => values.map((field) => fields.get(field) ?? false),
      HGETALL: () => [...fields].flat(),
      HLEN: () => fields.size,
      HEXISTS: () => (fields.has(first) ? 1 : 0),
      HSET: () => this.set(key, values),
      HDEL: () => {
        const deleted = values.filter((field) => fields.delete(field)).length;
        if (fields.size === 0) this.data.delete(key);
        return deleted;
      },
    };
    const command = commands[name];
    if (!command) throw new Error(`no such command here: ${name}`);
    return command();
  }

  private set(key: string, values: readonly string[]): number {
    const stored = this.living(key) ?? { fields: new Map<string, string>(), expiresAt: undefined };
    const before = stored.fields.size;
    for (let index = 0; index + 1 < values.length; index += 2) {
      stored.fields.set(values[index] as string, values[index + 1] as string);
    }
    this.data.set(key, stored);
    return stored.fields.size - before;
  }

  private delete(key: string, given: readonly string[]): boolean {
    const holder = this.living(key)?.fields.get('owner');
    if (holder !== undefined && !given.includes(holder)) this.events.deletedFor?.(key, holder);
    return this.data.delete(key);
  }

  private expireAt(key: string, ms: number): number {
    const stored = this.living(key);
    if (!stored) return 0;
    stored.expiresAt = ms;
    if (ms <= this.time()) this.data.delete(key);
    return 1;
  }

  private publish(channel: string, message: string): number {
    const hearing = [...this.subscribers].filter(([, subscriber]) => subscriber.channel === channel);
    for (const [deliver] of hearing) deliver(message);
    return hearing.length;
  }

  private living(key: string): Stored | undefined {
    const stored = this.data.get(key);
    if (stored?.expiresAt === undefined || stored.expiresAt > this.time()) return stored;
    this.data.delete(key);
    this.counted.expired += 1;
    return undefined;
  }

  private time(): number {
    return this.frozenAt ?? this.now();
  }
}

/** As a client sees what a script returned: a number without its fraction, false as nothing, a list up to its first nil. */
function replyOf(value: LuaValue): unknown {
  if (typeof value === 'number') return Math.trunc(value);
  if (value === undefined || value === false) return null;
  if (value === true) return 1;
  if (typeof value === 'string') return value;
  if (typeof value === 'function') throw new Error('a script returned a function');
  if (!Array.isArray(value)) return new ReplyError(value.err);
  const end = value.indexOf(undefined);
  return value.slice(0, end < 0 ? value.length : end).map(replyOf);
}
