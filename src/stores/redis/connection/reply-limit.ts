import type { Cluster } from 'ioredis';
import type { RedisClient } from './masters.js';

type Sent = Parameters<Cluster['sendCommand']>;

/** A reply later than this is unknown. Far above any healthy reply, short enough that a request is answered within a second. */
const REPLY_LIMIT_MS = 900;

/**
 * The reply, or an error if it is late. A process that stood still (its machine was paused) first reads what has arrived meanwhile. The
 * time-out of ioredis does not, and would end every command of that moment, although all were answered.
 */
export function inTime<Reply>(reply: Promise<Reply>): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const giveUp = () => reject(new Error('Command timed out'));
    // Immediates run after the sockets of an iteration were read.
    const timer = setTimeout(() => setImmediate(giveUp), REPLY_LIMIT_MS);
    reply.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** Gives each command of a client this limit. A Cluster sends commands to single nodes past it. */
export function answeredInTime<Client extends RedisClient>(client: Client): Client {
  const send: (...sent: Sent) => unknown = client.sendCommand.bind(client);
  client.sendCommand = (...sent: Sent) => {
    const reply = inTime(send(...sent) as Promise<unknown>);
    // Nobody awaits the reply to some commands that ioredis sends by itself.
    reply.catch(() => {});
    return reply;
  };
  return client;
}
