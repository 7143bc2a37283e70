import type { FastifyReply } from 'fastify';
import { represent } from '../transactions/representation.js';
import type { Transaction } from '../transactions/transaction.js';
import { quoted } from './entity-tags.js';

/** One transaction may be kept, and is asked for each time (decisions T7): only then is what is shown never stale. */
export const REVALIDATE = 'private, no-cache';

export function sendTransaction(reply: FastifyReply, transaction: Transaction): void {
  const { json, tag } = represent(transaction);
  reply
    .header('content-type', 'application/json; charset=utf-8')
    .header('etag', quoted(tag))
    .header('cache-control', REVALIDATE)
    .send(json);
}
