import type { FastifyRequest } from 'fastify';

/**
 * True if a browser says that a page of another origin made it send this (rule A8). Such a page cannot read the answer, but an image is
 * enough to issue a key, and a form to close an order. A person may follow a link to a page of ours. Only browsers send `Sec-Fetch-Site`,
 * and pages cannot set it; a browser that sends none (an old one, or one that asks over plain HTTP) sends `Origin` with everything but
 * reads.
 */
export function isOfOtherSite({ raw: { headers }, routeOptions: { config } }: FastifyRequest): boolean {
  const { host, origin, 'sec-fetch-site': site, 'sec-fetch-mode': mode } = headers;
  if (!site) return origin !== undefined && !isOriginOf(origin, host);
  if (site === 'same-origin' || site === 'none') return false;
  return mode !== 'navigate' || config.page !== true;
}

/** The scheme is not compared, because a proxy may have ended TLS. `null`, the origin of a sandboxed page or a file, has no host. */
function isOriginOf(origin: string, host: string | undefined): boolean {
  if (!URL.canParse(origin)) return false;
  const { protocol, host: named } = new URL(origin);
  const asked = `${protocol}//${host}`;
  return named !== '' && URL.canParse(asked) && new URL(asked).host === named;
}
