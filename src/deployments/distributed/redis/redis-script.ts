import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { NOT_MEASURED, type StoreMeasures } from '../../store-measures.js';
import { holdUntilEndOfTurn } from './one-write-per-turn.js';
import type { RedisClient } from './redis-client.js';
import { messageOf, redisFault } from './redis-fault.js';

export type Script = (
  client: RedisClient,
  keys: readonly string[],
  parameters: readonly (string | number)[],
) => Promise<unknown>;

const SCRIPTS = new URL('./scripts/', import.meta.url);

/** Makes a server know every script before it is asked to run one. Best effort: `loadScript` sends the text where it must. */
export function teachScripts(server: Redis): void {
  for (const file of readdirSync(SCRIPTS)) {
    server.script('LOAD', readFileSync(new URL(file, SCRIPTS), 'utf8')).catch(() => {});
  }
}

/**
 * A Lua script, run by its digest. A server that does not know it (after a restart, or another node of a Cluster) has not
 * executed anything, so it may be sent the text. Faults are StoreUnavailable.
 */
export function loadScript(name: string, measures: StoreMeasures = NOT_MEASURED): Script {
  const trips = measures.roundTrips('redis', name);
  const text = readFileSync(new URL(`${name}.lua`, SCRIPTS), 'utf8');
  const digest = createHash('sha1').update(text).digest('hex');
  return async function run(client, keys, parameters) {
    const values = [...keys, ...parameters];
    const begun = trips.begin();
    let failed = true;
    try {
      holdUntilEndOfTurn(client);
      const reply = await client.evalsha(digest, keys.length, ...values);
      failed = false;
      return reply;
    } catch (error) {
      const reply = await sendAgain(client, error, values, keys.length);
      failed = false;
      return reply;
    } finally {
      trips.end(begun, failed);
    }
  };

  /** What was surely not executed. Else throws the fault. */
  async function sendAgain(client: RedisClient, fault: unknown, values: (string | number)[], keyCount: number) {
    if (!messageOf(fault).startsWith('NOSCRIPT')) throw redisFault(fault);
    try {
      holdUntilEndOfTurn(client);
      return await client.eval(text, keyCount, ...values);
    } catch (error) {
      throw redisFault(error);
    }
  }
}
