import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { Command, type Redis } from 'ioredis';
import { NOT_MEASURED, type StoreMeasures } from '../../store-measures.js';
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

/** Answers of a Cluster that has not executed a command: it belongs to another node, or not to the pipeline it was sent in. */
const MISROUTED = /^(MOVED|ASK|TRYAGAIN) |slots allocation group/;

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
    if (MISROUTED.test(messageOf(fault))) return sendAlone(client, text, keyCount, values);
    if (!messageOf(fault).startsWith('NOSCRIPT')) throw redisFault(fault);
    try {
      return await client.eval(text, keyCount, ...values);
    } catch (error) {
      if (MISROUTED.test(messageOf(error))) return sendAlone(client, text, keyCount, values);
      throw redisFault(error);
    }
  }
}

/** Outside the automatic pipelines, which follow a redirection only when all that is in them is redirected to one node. */
function sendAlone(
  client: RedisClient,
  text: string,
  keyCount: number,
  values: readonly (string | number)[],
): Promise<unknown> {
  const command = new Command('eval', [text, keyCount, ...values], { replyEncoding: 'utf8' });
  return Promise.resolve(client.sendCommand(command)).catch((error: unknown) => {
    throw redisFault(error);
  });
}
