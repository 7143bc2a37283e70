import { EventEmitter } from 'node:events';
import { StoreUnavailable } from '#idempay/platform/faults.js';
import type { RedisClient } from '#idempay/stores/redis/connection/masters.js';
import { readScripts } from '#idempay/stores/redis/scripts/script.js';
import type { Line } from './line.js';
import type { RedisServer } from './redis-server.js';

/** As ioredis says it if it has no connection: surely nothing was sent. */
const NOT_SENT = "Stream isn't writeable and enableOfflineQueue options is false";

/** The part of ioredis that the adapters use, over a line to a modelled server. */
export function connectRedis(server: RedisServer, line: Line): RedisClient {
  function ask<T>(operation: string, keys: readonly string[], serve: () => T): Promise<T> {
    const asked = line.send<T>(operation, [...new Set(keys.map(subjectOf))], (reply, refuse) => {
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

  const run = (how: 'eval' | 'evalsha', script: string, count: number, values: readonly unknown[]) => {
    const texts = values.map(String);
    const keys = texts.slice(0, count);
    return ask(nameOf(script), keys, () => server[how](script, keys, texts.slice(count)));
  };

  /** The connection alongside the client that hears what is published. */
  function duplicate() {
    const emitter = new EventEmitter();
    let unsubscribe = () => {};
    return Object.assign(emitter, {
      status: 'wait',
      async connect() {
        await ask('connect', [''], () => undefined);
        this.status = 'ready';
      },
      async subscribe(channel: string) {
        await ask('subscribe', [''], () => {
          const hear = (message: string) => void (this.status === 'ready' && emitter.emit('message', channel, message));
          const deliver = (message: string) =>
            line.deliver(subjectOf(message), 'hears the end of', () => hear(message));
          const end = () => line.deliver('', 'is disconnected', () => this.disconnect());
          unsubscribe = server.subscribe(channel, deliver, end);
        });
      },
      async ping() {},
      disconnect() {
        if (this.status === 'end') return;
        this.status = 'end';
        unsubscribe();
        emitter.emit('end');
      },
    });
  }

  const client = {
    evalsha: (digest: string, count: number, ...values: string[]) => run('evalsha', digest, count, values),
    eval: (text: string, count: number, ...values: string[]) => run('eval', text, count, values),
    hget: (key: string, field: string) => ask('hget', [key], () => server.hash(key)?.get(field) ?? null),
    pttl: (key: string) => ask('pttl', [key], () => server.pttl(key)),
    ping: () => ask('ping', [''], () => 'PONG'),
    dbsize: () => ask('dbsize', [''], () => [...server.keys()].length),
    info: () => ask('info', [''], () => server.info()),
    duplicate,
    status: 'ready',
    on() {},
    disconnect() {},
  };
  return client as unknown as RedisClient;
}

const SCRIPTS = readScripts();

/** The subject of a key: the part in its braces, without the name of the cache. */
const subjectOf = (key: string) => /\{(?:\w+::)?(.*?)\}/.exec(key)?.[1] ?? '';

/** The name of a script that is given by its text or its digest. */
function nameOf(script: string): string {
  return SCRIPTS.find(({ text, digest }) => text === script || digest === script)?.name ?? script;
}
