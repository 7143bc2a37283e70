import { randomUUID } from 'node:crypto';
import type { Peer } from '../peer.js';

/** What the small servers have in common: the client makes the key, and Redis is the store. */
export function library(peer: Pick<Peer, 'name' | 'about' | 'entry'>): Peer {
  return {
    ...peer,
    processes: 2,
    stores: ['redis'],
    environment: () => ({}),
    path: '/payments',
    newKey: async () => randomUUID(),
    receiptOf: (answer) => answer.json<{ receipt?: string }>().receipt,
    isForOperator: async () => false,
  };
}

/** The servers are run where they lie, beside their dependencies; this file runs from `build/`. */
export function serverFile(name: string): URL {
  return new URL(`../../../../proof/peers/servers/${name}`, import.meta.url);
}
