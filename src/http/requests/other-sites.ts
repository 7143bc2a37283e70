import type { FastifyRequest } from 'fastify';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** A page for people, and its files: other sites may lead there. */
    page?: true;
  }
}

/**
 * Whether a browser says that a page of another site made it send this (rule A8). Such a page cannot read the answer, but an image
 * is enough to issue a key. A person may follow a link to a page of ours. Only browsers send `Sec-Fetch-Site`, and pages cannot set it.
 */
export function isOfOtherSite({ raw: { headers }, routeOptions: { config } }: FastifyRequest): boolean {
  if (headers['sec-fetch-site'] !== 'cross-site') return false;
  return headers['sec-fetch-mode'] !== 'navigate' || config.page !== true;
}
