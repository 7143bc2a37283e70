/** A connection failed, or was not even tried. Its message is for the caller. */
export class ConnectionFault extends Error {}

/** The codes of Node.js if no connection was made. Browsers do not tell, so there every failure may have arrived. */
const NEVER_CONNECTED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);
/** OpenSSL 3.0 and OpenSSL 3.2 name a reply that is not TLS in these two ways. */
const NO_TLS = new Set(['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG']);
/**
 * The codes of Node.js for a certificate that it does not accept, which is before the first byte of a request. `ERR_SSL_` begins the
 * server's own errors.
 */
const CERTIFICATE =
  /^(?!ERR_SSL_)(?:.*_)?(?:CERT|CRL|LEAF_SIGNATURE|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_EXCEEDED|ISSUER_PUBLIC_KEY)(?:_|$)/;

/** True if the request surely never left this process. */
export function wasNeverConnected(fault: unknown): boolean {
  const code = codeOf(causeOf(fault));
  return code !== undefined && (NEVER_CONNECTED.has(code) || CERTIFICATE.test(code));
}

/** True if every further attempt fails in the same way, until a person has corrected an address or a certificate. */
export function isLasting(fault: unknown): boolean {
  const code = codeOf(causeOf(fault)) ?? codeOf(fault) ?? '';
  return NO_TLS.has(code) || CERTIFICATE.test(code);
}

/**
 * A sentence that says what a person has to do if a certificate is not accepted; it follows the sentence of `reasonOf`. Empty for other
 * faults.
 */
export function adviceFor(fault: unknown): string {
  const code = codeOf(causeOf(fault)) ?? codeOf(fault) ?? '';
  if (!CERTIFICATE.test(code)) return '';
  if (/EXPIRED|NOT_YET_VALID/.test(code)) return ' Renew the certificate, or correct the clock of this machine.';
  if (/ALTNAME|HOSTNAME/.test(code)) return ' Name the host in baseUrl as the certificate has it.';
  return ' Name the authority that signed the certificate in NODE_EXTRA_CA_CERTS, which is the path of a PEM file.';
}

/**
 * Why there is no answer, for a person: `connect ECONNREFUSED 127.0.0.1:8080`, or why a certificate is refused. Node.js says it in the
 * cause of `fetch`'s error. The message of another `fetch` itself may hold the path, and with it a key, so it is not shown.
 */
export function reasonOf(fault: unknown): string {
  if (fault instanceof ConnectionFault || fault instanceof DOMException) return sentence(fault.message);
  const cause = causeOf(fault);
  const code = codeOf(cause) ?? codeOf(fault);
  if (code !== undefined && NO_TLS.has(code))
    return `the port does not speak TLS, so baseUrl may have to begin with http:// (${code})`;
  const text = cause instanceof Error ? sentence(cause.message) : '';
  if (text === '') return code ?? 'no reason is known';
  return code === undefined || text.includes(code) ? text : `${text} (${code})`;
}

function causeOf(fault: unknown): unknown {
  return fault instanceof Error ? fault.cause : undefined;
}

function codeOf(fault: unknown): string | undefined {
  const code = (fault as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}

/** Its first line, without a full stop. */
const sentence = (text: string) => (text.split('\n', 1)[0] as string).trim().replace(/\.$/, '');
