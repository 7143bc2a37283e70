import { TLSSocket } from 'node:tls';

/**
 * Headers that every answer has. `Idempay` tells it apart from the answer of a gateway, which proves nothing (rule P23). The others come
 * from the OWASP REST Security Cheat Sheet. All answers are data for programs: no browser may guess another type, run what is in them, or
 * show them in a frame. A page sets a policy of its own in its route.
 */
const FOR_DATA = {
  Idempay: '1',
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
} as const;

/** RFC 6797: for a year. Other hosts below this name are not ours to decide about. */
const OVER_TLS = { ...FOR_DATA, 'Strict-Transport-Security': 'max-age=31536000' } as const;

export type FixedHeaders = typeof FOR_DATA | typeof OVER_TLS;

export function fixedHeaders(isSecured: boolean): FixedHeaders {
  return isSecured ? OVER_TLS : FOR_DATA;
}

/** The same for an answer that is written to a socket. */
export function fixedHeadersOn(socket: unknown): FixedHeaders {
  return fixedHeaders(socket instanceof TLSSocket);
}
