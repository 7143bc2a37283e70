import { TLSSocket } from 'node:tls';

/**
 * What every answer has (OWASP REST Security Cheat Sheet). All of them are data for programs: no browser may guess another type,
 * run what is in them, or show them in a frame. A page sets a policy of its own in its route.
 */
const FOR_DATA = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
} as const;

/** RFC 6797: for a year. Other hosts below this name are not ours to decide about. */
const OVER_TLS = { ...FOR_DATA, 'Strict-Transport-Security': 'max-age=31536000' } as const;

export type SecurityHeaders = typeof FOR_DATA | typeof OVER_TLS;

export function securityHeaders(isSecured: boolean): SecurityHeaders {
  return isSecured ? OVER_TLS : FOR_DATA;
}

/** The same for an answer that is written to a socket. */
export function securityHeadersOn(socket: unknown): SecurityHeaders {
  return securityHeaders(socket instanceof TLSSocket);
}
