/** What Node and OpenSSL call a certificate that is not accepted: expired, of another host, of an unknown authority. */
const CERTIFICATE_FAULT = /CERT|SIGNATURE|HOSTNAME_MISMATCH/;

export function isCertificateFault(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return typeof code === 'string' && CERTIFICATE_FAULT.test(code);
}

/** For the person who started the service; the settings' name stands before it. */
export const CERTIFICATE_ADVICE =
  'Name the authority that signed the certificate in NODE_EXTRA_CA_CERTS, and the host as the certificate has it.';
