/** Where a processor over HTTP is, and how it knows us, from `PROCESSOR_URL`. */
export interface ProcessorLocation {
  /** The URL without user information, query and trailing slash: what rows and logs call the processor. */
  readonly name: string;
  readonly origin: string;
  /** Comes before `/charges`; no trailing slash. */
  readonly path: string;
  /** The value of `Authorization`: the URL's user information as Basic credentials (RFC 7617), if it has any. */
  readonly authorization: string | undefined;
}

/** For the person who wrote another one. */
export const PROCESSOR_URL_FORM =
  'http://host/path or https://host/path, without query and fragment; user:password@ before the host if it asks for them';

/** Undefined when the text has not the form above. */
export function readProcessorUrl(text: string): ProcessorLocation | undefined {
  if (!URL.canParse(text)) return undefined;
  const { protocol, origin, pathname, href, username, password } = new URL(text);
  if (!['http:', 'https:'].includes(protocol) || /[?#]/.test(href)) return undefined;
  const credentials = readCredentials(username, password);
  if (credentials === undefined) return undefined;
  const path = pathname.replace(/\/+$/, '');
  const authorization = credentials === ':' ? undefined : `Basic ${Buffer.from(credentials).toString('base64')}`;
  return { name: `${origin}${path}`, origin, path, authorization };
}

/** `user:password` as RFC 7617 2 has it: neither has a control character, the user no colon. Undefined when it cannot be. */
function readCredentials(username: string, password: string): string | undefined {
  try {
    const user = decodeURIComponent(username);
    const credentials = `${user}:${decodeURIComponent(password)}`;
    return user.includes(':') || /\p{Cc}/u.test(credentials) ? undefined : credentials;
  } catch {
    return undefined; // Percent signs that encode no UTF-8.
  }
}
