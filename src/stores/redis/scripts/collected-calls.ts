import { Cluster } from 'ioredis';
import type { RedisClient } from '../connection/masters.js';
import { mastersOf } from '../connection/masters.js';

/** A call of a script. */
export interface Call {
  readonly keys: readonly string[];
  readonly parameters: readonly (string | number)[];
  readonly resolve: (reply: unknown) => void;
  readonly reject: (fault: unknown) => void;
}

/** Sends calls of one script, and settles each of them. */
export type SendCalls = (client: RedisClient, calls: readonly Call[]) => void;

/** A batch of this size is sent at once, so that the server works during the rest of the iteration. */
const FULL_BATCH = 32;

const collecting = new WeakMap<RedisClient, Map<SendCalls, Call[]>>();
/** Servers that accept only keys of one slot in a command, although clients do not see a Cluster. */
const separating = new WeakSet<RedisClient>();

/**
 * Gathers the calls of this iteration of the event loop. At its end the calls of one script are sent as one command, and all in one write
 * to each server; nothing waits for a reply. In a Cluster each call is a command, because its keys are in a slot of their own.
 */
export function collectCall(client: RedisClient, send: SendCalls, call: Call): void {
  const byScript = collecting.get(client) ?? beginCollecting(client);
  const calls = byScript.get(send);
  if (!calls) {
    byScript.set(send, [call]);
    return;
  }
  calls.push(call);
  if (calls.length < FULL_BATCH || isSeparating(client)) return;
  byScript.delete(send);
  send(client, calls);
}

/** The server refused keys of several slots: from now on it gets one call at a time. */
export function separateCalls(client: RedisClient): void {
  separating.add(client);
}

function isSeparating(client: RedisClient): boolean {
  return client instanceof Cluster || separating.has(client);
}

function beginCollecting(client: RedisClient): Map<SendCalls, Call[]> {
  const byScript = new Map<SendCalls, Call[]>();
  collecting.set(client, byScript);
  setImmediate(() => {
    collecting.delete(client);
    sendAll(client, byScript);
  });
  return byScript;
}

/** Sends what was collected so far, without waiting for the end of the iteration. */
export function sendCollected(client: RedisClient): void {
  const byScript = collecting.get(client);
  if (!byScript) return;
  const collected = new Map(byScript);
  byScript.clear();
  sendAll(client, collected);
}

function sendAll(client: RedisClient, collected: ReadonlyMap<SendCalls, Call[]>): void {
  inOneWrite(client, () => {
    for (const [send, calls] of collected) {
      if (isSeparating(client)) for (const call of calls) send(client, [call]);
      else send(client, calls);
    }
  });
}

/** One write to each connected server. To a server that connects meanwhile each command is written at once. */
function inOneWrite(client: RedisClient, send: () => void): void {
  const streams = mastersOf(client).map(({ stream }) => stream as { cork(): void; uncork(): void } | undefined);
  for (const stream of streams) stream?.cork();
  try {
    send();
  } finally {
    for (const stream of streams) stream?.uncork();
  }
}
