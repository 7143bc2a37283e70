import type { Cluster } from 'ioredis';
import type { RedisClient } from './masters.js';

type Sent = Parameters<Cluster['sendCommand']>;

/** A reply later than both together is unknown. Far above any healthy reply, short enough that a request is answered within a second. */
const REPLY_LIMIT_MS = 600;
/** It begins when the first is over, so that a process or a machine that stood still has all of it to read the reply, and to send it. */
const GRACE_MS = 300;

/**
 * The reply, or an error if it is late. The time-out of ioredis would end every command of the moment after a pause of the machine, although
 * all of them are answered.
 */
export function inTime<Reply>(reply: Promise<Reply>): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const giveUp = () => reject(new Error('Command timed out'));
    let timer = setTimeout(() => {
      timer = setTimeout(giveUp, GRACE_MS);
    }, REPLY_LIMIT_MS);
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
