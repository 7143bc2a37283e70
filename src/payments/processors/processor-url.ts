import { createHash } from 'node:crypto';

/** Enough digits to tell two users apart; the user cannot be derived from them. */
const USER_HASH_DIGITS = 12;

/** The place of a processor over HTTP, and the account that it knows us by, from `PROCESSOR_URL` and `PROCESSOR_ACCOUNT`. */
export interface ProcessorLocation {
  /**
   * The name of the processor in rows and logs: the URL without user information and trailing slash, and whose account is charged there
   * (rule P14): `?account=NAME`, `?user=HASH` of the URL's user, or `?no-user`. No URL of a processor has a question mark, so no name is
   * also another one's.
   */
  readonly name: string;
  readonly origin: string;
  /** Comes before `/charges`; no trailing slash. */
  readonly path: string;
  /** The value of `Authorization`: the URL's user information as Basic credentials (RFC 7617). Undefined without a user. */
  readonly authorization: string | undefined;
}

/** The expected form, for the error message. */
export const PROCESSOR_URL_FORM =
  'http://host/path or https://host/path, without query and fragment; user:password@ before the host if it asks for them';

export const PROCESSOR_ACCOUNT_FORM =
  'a name of 1 to 64 letters, digits and . _ : @ -, which begins with a letter or digit';

export const FORMER_NAMES_FORM =
  "names as 'idempay payments list' shows them, separated by commas: https://host/path?account=NAME, ?user=HASH or ?no-user";

/** Earlier names of the account, as rows have them. Undefined when the text has not the form above. */
export function readFormerNames(text: string): readonly string[] | undefined {
  // A path may have a comma.
  const names = text.trim().split(/[\s,]+(?=https?:\/\/)/);
  const areNames = names.every((name) =>
    /^https?:\/\/[^\s?#]+\?(account=[A-Za-z0-9][\w.:@-]{0,63}|user=[0-9a-f]{12}|no-user)$/.test(name),
  );
  return areNames ? names : undefined;
}

/** Undefined when the text has not the form above. */
export function readProcessorAccount(text: string): string | undefined {
  return /^[A-Za-z0-9][\w.:@-]{0,63}$/.test(text) ? text : undefined;
}

/** `account` is `PROCESSOR_ACCOUNT`. Undefined when the text has not the form above. */
export function readProcessorUrl(text: string, account?: string): ProcessorLocation | undefined {
  if (!URL.canParse(text)) return undefined;
  const { protocol, origin, pathname, href, username, password } = new URL(text);
  if (!['http:', 'https:'].includes(protocol) || /[?#]/.test(href)) return undefined;
  const credentials = readCredentials(username, password);
  if (credentials === undefined) return undefined;
  const user = decodeURIComponent(username);
  const path = pathname.replace(/\/+$/, '');
  const authorization = credentials === ':' ? undefined : `Basic ${Buffer.from(credentials).toString('base64')}`;
  return { name: `${origin}${path}?${accountName(user, account)}`, origin, path, authorization };
}

/** The hash is of the user alone: a password may be changed while payments are unfinished. */
function accountName(user: string, account: string | undefined): string {
  if (account !== undefined) return `account=${account}`;
  if (user === '') return 'no-user';
  return `user=${createHash('sha256').update(user).digest('hex').slice(0, USER_HASH_DIGITS)}`;
}

/**
 * A processor's name as a caller sees it. It names an internal place, and the hash of its user is without salt, so only a caller who sees
 * all payments sees it: for that one `client` is undefined.
 */
export function shownProcessor(name: string, client: string | undefined): string {
  return client !== undefined && name.includes('?') ? 'http' : name;
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
