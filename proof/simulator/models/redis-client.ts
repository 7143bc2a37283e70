import { createHash } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import type { RedisClient } from '#idempay/deployments/distributed/redis/redis-client.js';
import { StoreUnavailable } from '#idempay/faults.js';
import type { Line } from './line.js';
import type { RedisServer } from './redis-server.js';

/** From the root of the repository, where everything here is run. */
const SCRIPTS = 'dist/deployments/distributed/redis/scripts';
let names: ReadonlyMap<string, string> | undefined;

/** As ioredis says it where it has no connection: surely nothing was sent. */
const NOT_SENT = "Stream isn't writeable and enableOfflineQueue options is false";

/** What the adapters use of ioredis, over a line to a modelled server. */
export function connectRedis(server: RedisServer, line: Line): RedisClient {
  function ask<T>(operation: string, key: string, serve: () => T): Promise<T> {
    const asked = line.send<T>(operation, [subjectOf(key)], (reply, refuse) => {
      try {
        reply(serve());
      } catch (refusal) {
        refuse(refusal);
      }
    });
    return asked.catch((fault: unknown) => {
      throw fault instanceof StoreUnavailable && fault.effect === 'unchanged' ? new Error(NOT_SENT) : fault;
    });
  }

  function split(count: number, values: readonly (string | number)[]) {
    const texts = values.map(String);
    return [texts.slice(0, count), texts.slice(count)] as const;
  }

  const client = {
    evalsha(digest: string, count: number, ...values: (string | number)[]) {
      const [keys, parameters] = split(count, values);
      return ask(nameOf(digest), keys[0] ?? '', () => server.evalsha(digest, keys, parameters));
    },
    eval(text: string, count: number, ...values: (string | number)[]) {
      const [keys, parameters] = split(count, values);
      const name = nameOf(createHash('sha1').update(text).digest('hex'));
      return ask(name, keys[0] ?? '', () => server.eval(text, keys, parameters));
    },
    hget: (key: string, field: string) => ask('hget', key, () => server.hash(key)?.get(field) ?? null),
    pttl: (key: string) => ask('pttl', key, () => server.pttl(key)),
    ping: () => ask('ping', '', () => 'PONG'),
    dbsize: () => ask('dbsize', '', () => [...server.keys()].length),
    info: () => ask('info', '', () => server.info()),
    duplicate: () => new Listener(server, line, ask),
  };
  return client as unknown as RedisClient;
}

/** The connection beside the client that hears what is published. */
class Listener extends EventEmitter {
  status: 'wait' | 'ready' | 'end' = 'wait';
  private unsubscribe: (() => void) | undefined;

  constructor(
    private readonly server: RedisServer,
    private readonly line: Line,
    private readonly ask: <T>(operation: string, key: string, serve: () => T) => Promise<T>,
  ) {
    super();
  }

  async connect(): Promise<void> {
    await this.ask('connect', '', () => undefined);
    this.status = 'ready';
  }

  async subscribe(channel: string): Promise<void> {
    await this.ask('subscribe', '', () => {
      const hear = (message: string) => void (this.status === 'ready' && this.emit('message', channel, message));
      const deliver = (message: string) =>
        this.line.deliver(subjectOf(message), 'hears the end of', () => hear(message));
      const end = () => this.line.deliver('', 'is disconnected', () => this.disconnect());
      this.unsubscribe = this.server.subscribe(channel, deliver, end);
    });
  }

  async ping(): Promise<void> {}

  disconnect(): void {
    if (this.status === 'end') return;
    this.status = 'end';
    this.unsubscribe?.();
    this.emit('end');
  }
}

/** What a key is about: what stands in its braces, without the name of the cache. */
function subjectOf(key: string): string {
  return /\{(?:\w+::)?(.*?)\}/.exec(key)?.[1] ?? '';
}

function nameOf(digest: string): string {
  names ??= new Map(
    readdirSync(SCRIPTS).map((file) => {
      const text = readFileSync(`${SCRIPTS}/${file}`, 'utf8');
      return [createHash('sha1').update(text).digest('hex'), file.replace('.lua', '')] as const;
    }),
  );
  return names.get(digest) ?? digest;
}
