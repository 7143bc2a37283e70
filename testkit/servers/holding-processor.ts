import type { ServerResponse } from 'node:http';
import { onTestFinished } from 'vitest';
import { gate } from '../concurrency.js';
import { openHttpServer } from './processor-servers.js';

/** Longer than any test looks at a payment under way. The lease is longer than that, as the settings demand. */
const SETTINGS = { PROCESSOR_TIMEOUT_MS: '120000', LOCK_TTL_SECONDS: '180' };

const succeed = (response: ServerResponse) =>
  response.writeHead(201, { 'Content-Type': 'application/json' }).end('{"status":"succeeded"}');

/** A processor that answers no request about a key before the test releases it. It must be closed. */
export async function openHoldingProcessor() {
  const gates = new Map<string, ReturnType<typeof gate>>();
  const gateOf = (key: string) => {
    const known = gates.get(key) ?? gate();
    gates.set(key, known);
    return known;
  };
  const keyIn = (headers: Record<string, unknown>) => String(headers['idempotency-key']);
  const { port, received, close } = await openHttpServer(async (response, { headers }) => {
    await gateOf(keyIn(headers)).opened;
    succeed(response);
  });
  return {
    /** The settings of a service that charges here. */
    environment: { PROCESSOR_URL: `http://127.0.0.1:${port}`, ...SETTINGS },
    /** Answers the charge of this key with a success, also if it arrives later. */
    release: (key: string) => gateOf(key).open(),
    /** The requests about this key that have arrived, released or not. */
    requestsOf: (key: string) => received.filter(({ headers }) => keyIn(headers) === key),
    close,
  };
}

/** The same for one test, which closes it. */
export async function startHoldingProcessor() {
  const processor = await openHoldingProcessor();
  onTestFinished(processor.close);
  return processor;
}
