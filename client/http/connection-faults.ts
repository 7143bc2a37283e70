/** A connection failed, or was not even tried. Its message is for the caller. */
export class ConnectionFault extends Error {}

/** What Node.js says where no connection was made. Browsers do not tell, so there every failure may have arrived. */
const NEVER_CONNECTED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);
const NO_TLS = 'ERR_SSL_WRONG_VERSION_NUMBER';

/** Whether the request surely never left this process. */
export function wasNeverConnected(fault: unknown): boolean {
  const code = codeOf(causeOf(fault));
  return code !== undefined && NEVER_CONNECTED.has(code);
}

/**
 * Why there is no answer, for a person: `connect ECONNREFUSED 127.0.0.1:8080`, or why a certificate is refused. Node.js says it in the
 * cause of what `fetch` rejects with. The message of another `fetch` itself may hold the path, and with it a key, so it is not shown.
 */
export function reasonOf(fault: unknown): string {
  if (fault instanceof ConnectionFault || fault instanceof DOMException) return sentence(fault.message);
  const cause = causeOf(fault);
  const code = codeOf(cause) ?? codeOf(fault);
  if (code === NO_TLS) return `the port does not speak TLS, so baseUrl may have to begin with http:// (${code})`;
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
