import { adoptingClient } from '../../payments/values/adoption.js';
import { KEY_GENERATED } from '../../payments/values/payment.js';
import { CannotOpen } from '../shared/deployment.js';
import type { TransferredDeployment, UnpaidKey } from '../shared/transferred-tables.js';
import { connected, connectRedis } from './connection/client.js';
import { redisFault } from './connection/fault.js';
import type { RedisClient } from './connection/masters.js';
import { refuseWrongRedis } from './connection/start.js';
import type { RedisLocation } from './connection/url.js';
import { createKeyNames } from './key-names.js';
import { loadScript } from './scripts/script.js';

/** The target's Redis is there while the command runs, or the command ends. */
const CONNECT_LIMIT_MS = 5_000;
/** The client of a key that every client sees. */
const EVERYBODY = '';

/** The transfer by which a deployment came to this Redis, as Redis knows it. */
export interface FoundMark {
  readonly name: string;
  /** A service has started on the target. */
  readonly isStarted: boolean;
}

/** A mark that was asked for by the name of a transfer. */
export interface ClaimedMark extends FoundMark {
  /** The transfer of this name was given up. */
  readonly isGivenUp: boolean;
}

/** The name of the transfer by which a deployment came to this Redis. Two targets of one folder would share all other names. */
export interface TransferMark {
  find(): Promise<FoundMark | undefined>;
  /** Writes the name if there is none, and this one was not given up. The mark as it is then. */
  claim(name: string): Promise<ClaimedMark>;
  /** Writes down that a service has started. The name is claimed. The mark as it is then. */
  start(name: string): Promise<ClaimedMark>;
  /** Removes the name, if it is this one. */
  release(name: string): Promise<void>;
  /** Removes it for ever: the row of the target may be set back to before it was given up, and its folder serves by then. */
  giveUp(name: string): Promise<void>;
}

export function createTransferMark(client: RedisClient, deploymentId: string): TransferMark {
  const mark = createKeyNames(deploymentId).transfer;
  const asked = <Reply>(reply: Promise<Reply>) =>
    reply.catch((error: unknown) => {
      throw redisFault(error);
    });

  /** The names that were given up stay next to the present one, which may be another by then. */
  const givenUp = (name: string) => `given_up:${name}`;

  async function find(): Promise<FoundMark | undefined> {
    const [name, started] = await asked(client.hmget(mark, 'name', 'started'));
    return name ? { name, isStarted: Boolean(started) } : undefined;
  }

  async function findAs(name: string): Promise<ClaimedMark> {
    const [found, isGivenUp] = [await find(), await asked(client.hexists(mark, givenUp(name)))];
    return { ...(found ?? { name, isStarted: false }), isGivenUp: isGivenUp === 1 };
  }

  async function release(name: string): Promise<void> {
    // Nobody else writes another name while this one is there.
    if ((await find())?.name === name) await asked(client.hdel(mark, 'name', 'started'));
  }

  return {
    find,
    async claim(name) {
      const known = await findAs(name);
      if (known.isGivenUp) return known;
      await asked(client.hsetnx(mark, 'name', name));
      const claimed = await findAs(name);
      // It was given up at the same moment.
      if (claimed.isGivenUp) await release(name);
      return claimed;
    },
    async start(name) {
      await asked(client.hset(mark, 'started', '1'));
      return findAs(name);
    },
    release,
    async giveUp(name) {
      await asked(client.hset(mark, givenUp(name), '1'));
      await release(name);
    },
  };
}

export interface TransferRedis extends TransferMark {
  /** Issues keys again, for the transfer of this name, with the lives that are left to them. May be repeated. */
  issue(name: string, keys: readonly UnpaidKey[]): Promise<void>;
  close(): void;
}

/** Connects to the Redis of a target. Throws CannotOpen if it is not there or cannot be the right one. */
export async function openTransferRedis(
  location: RedisLocation,
  { id, adopter }: Pick<TransferredDeployment, 'id' | 'adopter'>,
  warn: (sentence: string) => void,
): Promise<TransferRedis> {
  await refuseWrongRedis(location, warn);
  let lastError: Error | undefined;
  const client = connectRedis(location, (error) => {
    lastError = error;
  });
  const issue = loadScript('issue');
  let timer: NodeJS.Timeout | undefined;
  try {
    await Promise.race([
      connected(client),
      new Promise<never>((_, reject) => {
        timer = setTimeout(() => {
          reject(new CannotOpen(`REDIS_URL: Redis cannot be reached: ${lastError?.message ?? 'no answer'}.`));
        }, CONNECT_LIMIT_MS);
      }),
    ]);
  } catch (error) {
    client.disconnect();
    throw error;
  } finally {
    clearTimeout(timer);
  }

  return {
    ...createTransferMark(client, id),
    async issue(name, keys) {
      const names = createKeyNames(id, { adopter: adoptingClient(adopter), transfer: name });
      await Promise.all(
        keys.map(({ key, client: owner, reference, attempt, lifeMs }) => {
          const values = [KEY_GENERATED, lifeMs, owner ?? EVERYBODY];
          if (reference !== null && attempt !== null) values.push(reference, attempt);
          return issue(client, [names.payment(key).record], values);
        }),
      );
    },
    close: () => client.disconnect(),
  };
}

/** Throws CannotOpen if the name in Redis is another transfer's. */
export function refuseOtherTransfer(found: FoundMark, name: string): void {
  if (found.name === name) return;
  throw new CannotOpen(
    'REDIS_URL: this Redis belongs to another copy of the same deployment. Give each copy a Redis of its own, or another database number; or empty this one if nothing serves on it.',
  );
}
