import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import type { TagCondition } from '../../transactions/transactions.js';
import { ifMatchCondition, ifNoneMatchCondition } from './entity-tags.js';

/**
 * The result of the preconditions for GET or HEAD on a resource that has this tag, in the order of RFC 9110 13.2.2. Nothing here has a
 * modification date, so preconditions that compare dates are ignored, as RFC 9110 13.1.3 and 13.1.4 want it.
 */
export function evaluateRead(headers: IncomingHttpHeaders, tag: string): 'proceed' | 'not modified' | 'failed' {
  if (ifMatchCondition(headers['if-match'])?.(tag) === false) return 'failed';
  return ifNoneMatchCondition(headers['if-none-match'])?.(tag) ? 'not modified' : 'proceed';
}

/** The condition on the tag for any other method to happen, else 412 (RFC 9110 13.2.2). Undefined if the request asks for nothing. */
export function writeCondition(headers: IncomingHttpHeaders): TagCondition | undefined {
  const ifMatch = ifMatchCondition(headers['if-match']);
  const ifNoneMatch = ifNoneMatchCondition(headers['if-none-match']);
  if (!ifMatch && !ifNoneMatch) return undefined;
  return (tag) => ifMatch?.(tag) !== false && ifNoneMatch?.(tag) !== true;
}

export function sendNotModified(reply: FastifyReply): void {
  // For HEAD the framework would send a Content-Length of 0; with a stream it sends none.
  reply.code(304).send(reply.request.method === 'HEAD' ? Readable.from([]) : undefined);
}
