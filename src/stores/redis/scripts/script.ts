import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { NOT_MEASURED, type StoreMeasures } from '../../shared/store-measures.js';
import { messageOf, redisFault } from '../connection/fault.js';
import type { RedisClient } from '../connection/masters.js';
import { type Call, collectCall, separateCalls } from './collected-calls.js';

export type Script = (
  client: RedisClient,
  keys: readonly string[],
  parameters: readonly (string | number)[],
) => Promise<unknown>;

const FOLDER = new URL('./', import.meta.url);
const ENDING = '.lua';
/** The error of servers that refuse a command with keys of several slots, and execute nothing of it. */
const SEVERAL_SLOTS = /cross-?slot|same slot/i;

/** Makes a server know every script before it is asked to run one. Best effort: `loadScript` sends the text if it must. */
export function teachScripts(server: Redis): void {
  for (const { text } of readScripts()) server.script('LOAD', text).catch(() => {});
}

/**
 * A Lua script, run once for all calls of one iteration of the event loop (`scripts/batch/`). Each call is one atomic step. Faults are
 * StoreUnavailable.
 */
export function loadScript(name: string, measures: StoreMeasures = NOT_MEASURED): Script {
  const trips = measures.roundTrips('redis', name);
  const queue = measures.queue('redis', name);
  const { text, digest } = readScript(name);

  return (client, keys, parameters) =>
    new Promise((resolve, reject) => {
      collectCall(client, send, { keys, parameters, resolve, reject });
    });

  async function send(client: RedisClient, calls: readonly Call[]): Promise<void> {
    queue.batch(calls.length);
    const begun = trips.begin();
    try {
      answer(calls, await evaluate(client, calls));
    } catch (error) {
      refuse(client, calls, error);
    } finally {
      trips.end(begun);
    }
  }

  function answer(calls: readonly Call[], replies: readonly unknown[]): void {
    for (const [index, { resolve, reject }] of calls.entries()) {
      const reply = replies[index];
      if (reply instanceof Error) reject(redisFault(reply));
      else resolve(reply);
    }
  }

  function refuse(client: RedisClient, calls: readonly Call[], error: unknown): void {
    if (calls.length > 1 && SEVERAL_SLOTS.test(messageOf(error))) {
      separateCalls(client);
      for (const call of calls) send(client, [call]);
      return;
    }
    const fault = redisFault(error);
    for (const { reject } of calls) reject(fault);
  }

  /**
   * By its digest. A server that does not know it (after a restart, or another node of a Cluster) has not executed anything, so
   * it may be sent the text.
   */
  async function evaluate(client: RedisClient, calls: readonly Call[]): Promise<unknown[]> {
    const values: (string | number)[] = [];
    for (const { keys } of calls) values.push(...keys);
    const keyCount = values.length;
    values.push(keyCount / calls.length);
    for (const { parameters } of calls) values.push(parameters.length, ...parameters);
    const replies = await client.evalsha(digest, keyCount, ...values).catch((error: unknown) => {
      if (messageOf(error).startsWith('NOSCRIPT')) return client.eval(text, keyCount, ...values);
      throw error;
    });
    if (Array.isArray(replies) && replies.length === calls.length) return replies;
    throw new Error(`${name}: no list of ${calls.length} replies`);
  }
}

/** A script that a server is taught and asked to run. */
interface ScriptText {
  readonly name: string;
  readonly text: string;
  /** Names the text for EVALSHA. */
  readonly digest: string;
}

function readScript(name: string): ScriptText {
  const text = [
    read('batch/helpers'),
    `local function run(KEYS, ARGV)\n${read(name)}\nend`,
    read('batch/each-call'),
  ].join('\n');
  return { name, text, digest: createHash('sha1').update(text).digest('hex') };
}

/** All that there are. */
export function readScripts(): ScriptText[] {
  const files = readdirSync(FOLDER).filter((file) => file.endsWith(ENDING));
  return files.map((file) => readScript(file.slice(0, -ENDING.length)));
}

function read(name: string): string {
  return readFileSync(new URL(`${name}${ENDING}`, FOLDER), 'utf8');
}
