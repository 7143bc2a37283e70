/**
 * Bug: with a few connections that sent a megabyte of spaces each, one client took another client's payments from 5 ms to 5.5 s.
 * Cause: every body was read as soon as it was whole, so many of them kept the event loop busy in a row.
 * Fix: long bodies are read in turns of their clients, and everything else goes on between two of them.
 */
import { expect, test } from 'vitest';
import { readInTurn } from '#idempay/http/requests/long-body-turns.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 10_000;
const TOOK_MS = 20;

test('a client waits for one body of another client, and for the rest after it, whatever that client has sent', async () => {
  const read: { client: string; begun: number; ended: number }[] = [];
  const send = (client: string) =>
    readInTurn(client, () => {
      const begun = performance.now();
      while (performance.now() - begun < TOOK_MS);
      read.push({ client, begun, ended: performance.now() });
    });
  for (let body = 0; body < 5; body += 1) send('busy');
  send('other');
  expect(read.map(({ client }) => client)).toEqual(['busy']);
  await until('all are read', DEADLINE_MS, () => read.length === 6);
  expect(read.map(({ client }) => client).indexOf('other')).toBeLessThanOrEqual(2);
  const rests = read.slice(1).map(({ begun }, index) => begun - (read[index]?.ended ?? 0));
  // A timer may be early by a part of a millisecond.
  expect(Math.min(...rests)).toBeGreaterThan(TOOK_MS - 2);
});
