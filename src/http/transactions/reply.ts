import type { FastifyReply } from 'fastify';
import { represent } from '../../transactions/representation.js';
import type { Transaction } from '../../transactions/transaction.js';
import { quoted, REVALIDATE } from '../requests/entity-tags.js';

export function sendTransaction(reply: FastifyReply, transaction: Transaction): void {
  const { json, tag } = represent(transaction);
  reply
    .header('content-type', 'application/json; charset=utf-8')
    .header('etag', quoted(tag))
    .header('cache-control', REVALIDATE)
    .send(json);
}

/** One of several, with the tag that it cannot have in a header: as `If-Match` takes it. */
export function foundTransactionJson(transaction: Transaction): string {
  const { json, tag } = represent(transaction);
  return `${json.slice(0, -1)},"etag":${JSON.stringify(quoted(tag))}}`;
}
