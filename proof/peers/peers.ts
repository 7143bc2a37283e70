import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { type Answer, generateKey, sendJson, transactionIdOf } from '../../testkit/client/http-client.js';
import { SERVICE } from '../../testkit/programs.js';
import { pause } from '../../testkit/time/until.js';

/** One server to compare: how it is started, and how a client uses it. */
export interface Peer {
  readonly name: string;
  /** What it does, in one sentence. */
  readonly about: string;
  /** The file that Node runs. */
  readonly program: string;
  readonly isDistributed: boolean;
  readonly isOurs: boolean;
  readonly path: string;
  newKey(url: string): Promise<string>;
  /** What a success names: two of them for one key are two runs of the payment. */
  receiptOf(answer: Answer): string | undefined;
  /** Whether the server leaves this payment, which has no outcome, to an operator; the question may resolve it. */
  isForOperator(url: string, key: string): Promise<boolean>;
}

export const PEERS: readonly Peer[] = [
  idempay('distributed', 'on Redis and PostgreSQL, with its defaults: the row is committed before the charge is sent.'),
  idempay('embedded', 'in one process with SQLite, with its defaults.'),
  library(
    'node-idempotency',
    '@node-idempotency/nestjs 1.0.4 in NestJS 10: one record per key, for 24 hours, that is both the lock and the answer; errors are kept like successes.',
  ),
  library(
    'express-idempotency',
    'express-idempotency 1.0.6 in Express 4, with express-idempotency-redis-adapter 1.0.8: looks for a record, then writes one for 24 hours; errors remove it.',
  ),
  library(
    'powertools',
    "@aws-lambda-powertools/idempotency 2.35.0 with its cache layer: a record that may be taken over when the invocation's 30 seconds are over; errors remove it.",
  ),
];

function idempay(deployment: 'distributed' | 'embedded', about: string): Peer {
  return {
    name: `Idempay, ${deployment}`,
    about: `This service ${about}`,
    program: SERVICE,
    isDistributed: deployment === 'distributed',
    isOurs: true,
    path: '/api/payment',
    newKey: generateKey,
    receiptOf: transactionIdOf,
    /** Resolves it, as an operator would. That is refused while the service may find out by itself, or looks the payment up. */
    async isForOperator(url, key) {
      for (let attempt = 0; attempt < 5; attempt += 1) {
        const resolution = { outcome: 'declined', reason: 'not on the statement' };
        const { status } = await sendJson(`${url}/api/payments/${key}/resolution`, 'POST', resolution);
        if (status === 200) return true;
        await pause(1_000);
      }
      return false;
    },
  };
}

/** A small server of `servers/`: the client makes the key, and Redis is the store. */
function library(name: string, about: string): Peer {
  return {
    name,
    about,
    // Beside their dependencies; this file runs from `build/`.
    program: fileURLToPath(new URL(`../../../proof/peers/servers/${name}.mjs`, import.meta.url)),
    isDistributed: true,
    isOurs: false,
    path: '/payments',
    newKey: async () => randomUUID(),
    receiptOf: (answer) => answer.json<{ receipt?: string }>().receipt,
    isForOperator: async () => false,
  };
}
