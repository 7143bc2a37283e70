/**
 * The codes of Node and OpenSSL for a certificate that is not accepted: expired, of another host, of an unknown authority. `ERR_SSL_`
 * begins the server's own errors.
 */
const CERTIFICATE_FAULT =
  /^(?!ERR_SSL_)(?:.*_)?(?:CERT|CRL|LEAF_SIGNATURE|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_EXCEEDED|ISSUER_PUBLIC_KEY)(?:_|$)/;
/** OpenSSL 3.0 and OpenSSL 3.2 name a reply that is not TLS in these two ways. */
const NO_TLS = /^ERR_SSL_(?:WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG)$/;

export function isCertificateFault(error: unknown): boolean {
  return CERTIFICATE_FAULT.test(codeOf(error));
}

/** True if the exception, or one that caused it, says that TLS cannot be set up as it is, at any time. */
export function isTlsFault(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return isCertificateFault(error) || NO_TLS.test(codeOf(error)) || isTlsFault(error.cause);
}

function codeOf(error: unknown): string {
  const { code } = error as { code?: unknown };
  return typeof code === 'string' ? code : '';
}

/** For the person who started the service; the name of the address stands before it. `setting`: the one that names authorities. */
export function certificateAdvice(setting: string): string {
  return `Name the authority that signed the certificate in ${setting} or NODE_EXTRA_CA_CERTS, and the host as the certificate has it.`;
}
