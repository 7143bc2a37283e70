import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { type Answer, generateKey, sendJson, transactionIdOf } from '../../testkit/client/http-client.js';
import { SERVICE } from '../../testkit/programs.js';
import { pause } from '../../testkit/time/until.js';

/** One server to compare: how it is started, and how a client uses it. */
export interface Peer {
  readonly name: string;
  /** The file that Node runs. */
  readonly program: string;
  /** Without stores of its own it is one process; with them two. */
  readonly stores: readonly ('redis' | 'postgres')[];
  readonly isOurs: boolean;
  readonly path: string;
  newKey(url: string): Promise<string>;
  /** The receipt of a success: two receipts for one key are two runs of the payment. */
  receiptOf(answer: Answer): string | undefined;
  /** True if the server leaves this payment, which has no outcome, to an operator; the question may resolve it. */
  isForOperator(url: string, key: string): Promise<boolean>;
}

/** `docs/engineering/comparison.md` says what each of them does. */
export const PEERS: readonly Peer[] = [
  ...(['distributed', 'embedded'] as const).map(idempay),
  ...['node-idempotency', 'express-idempotency', 'powertools'].map((name) => server(name, 'redis')),
  server('unique-key', 'postgres'),
];

function idempay(deployment: 'distributed' | 'embedded'): Peer {
  return {
    name: `Idempay, ${deployment}`,
    program: SERVICE,
    stores: deployment === 'distributed' ? ['redis', 'postgres'] : [],
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

/** A small server of `servers/`: the client makes the key. */
function server(name: string, store: 'redis' | 'postgres'): Peer {
  return {
    name,
    // Beside their dependencies; this file runs from `build/`.
    program: fileURLToPath(new URL(`../../../proof/peers/servers/${name}.mjs`, import.meta.url)),
    stores: [store],
    isOurs: false,
    path: '/payments',
    newKey: async () => randomUUID(),
    receiptOf: (answer) => answer.json<{ receipt?: string }>().receipt,
    isForOperator: async () => false,
  };
}
