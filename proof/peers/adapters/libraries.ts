import { randomUUID } from 'node:crypto';
import type { Peer } from '../peer.js';

export const expressIdempotency = library(
  'express-idempotency',
  'express-idempotency 1.0.6 in Express 4, with express-idempotency-redis-adapter 1.0.8: looks for a record, then writes one for 24 hours; errors remove it.',
);
export const nodeIdempotency = library(
  'node-idempotency',
  '@node-idempotency/nestjs 1.0.4 in NestJS 10: one record per key, for 24 hours, that is both the lock and the answer; errors are kept like successes.',
);
export const powertools = library(
  'powertools',
  "@aws-lambda-powertools/idempotency 2.35.0 with its cache layer: a record that may be taken over when the invocation's 30 seconds are over; errors remove it.",
);

/** A small server of `servers/`: the client makes the key, and Redis is the store. */
function library(name: string, about: string): Peer {
  return {
    name,
    about,
    // Beside their dependencies; this file runs from `build/`.
    program: new URL(`../../../../proof/peers/servers/${name}.mjs`, import.meta.url),
    processes: 2,
    stores: ['redis'],
    environment: () => ({}),
    path: '/payments',
    newKey: async () => randomUUID(),
    receiptOf: (answer) => answer.json<{ receipt?: string }>().receipt,
    isForOperator: async () => false,
  };
}
