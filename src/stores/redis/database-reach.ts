import { randomUUID } from 'node:crypto';
import { redisFault } from './connection/fault.js';
import type { RedisClient } from './connection/masters.js';
import type { KeyNames } from './key-names.js';
import { loadScript } from './scripts/script.js';

/** The time that rule O1 gives. A process that reaches the database writes each second. */
const REACHED_FOR_MS = 10_000;

/** The process of the deployment that was the last to reach the database, in one small hash that expires (rule O1). */
export interface DatabaseReach {
  /** This process has reached it, and may write to it. */
  reached(): Promise<void>;
  /** The process will end, so `reached` says nothing any more. */
  leave(): void;
  /** Another process has, within the last ten seconds, and this one has not since. Throws StoreUnavailable. */
  isReachedByAnother(): Promise<boolean>;
}

export function createRedisDatabaseReach(client: RedisClient, names: KeyNames): DatabaseReach {
  const reachDatabase = loadScript('reach-database');
  const instance = randomUUID();
  let isLeaving = false;
  return {
    async reached() {
      if (isLeaving) return;
      await reachDatabase(client, [names.databaseReach], [instance, REACHED_FOR_MS]);
    },

    leave() {
      isLeaving = true;
    },

    async isReachedByAnother() {
      const last = await client.hget(names.databaseReach, 'process').catch((error: unknown) => {
        throw redisFault(error);
      });
      return last !== null && last !== instance;
    },
  };
}
