import { isPercentEncoded } from '../../../platform/percent-encoding.js';

/** The expected form, for the error message. */
export const DATABASE_URL_FORM =
  'postgres://user:password@host:5432/database (percent-encoded; several hosts with commas between; target_session_attrs is primary or read-write)';

const AUTHORITY = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#@]*)(.*)$/;
/** Everything else may lead to a standby, which nothing can be written to. */
const PRIMARY_ONLY = ['primary', 'read-write'];

/** The text itself, which the driver reads and decodes host by host; undefined when it is no URL of PostgreSQL. */
export function readDatabaseUrl(text: string): string | undefined {
  if (!isPercentEncoded(text)) return undefined;
  const [, start = '', hosts = '', rest = ''] = AUTHORITY.exec(text) ?? [];
  const urls = hosts.split(',').map((host) => `${start}${host}${rest}`);
  if (!urls.every((url) => URL.canParse(url) && ['postgres:', 'postgresql:'].includes(new URL(url).protocol))) {
    return undefined;
  }
  if (hosts.includes(',') && hosts.split(',').includes('')) return undefined;
  const wanted = new URL(urls[0] ?? '').searchParams.get('target_session_attrs');
  return wanted === null || PRIMARY_ONLY.includes(wanted) ? text : undefined;
}

/** The URL without user, password and parameters, which may hold a password as well; for logs. */
export function databaseName(url: string): string {
  const [, start = '', hosts = '', rest = ''] = AUTHORITY.exec(url) ?? [];
  const [first = ''] = hosts.split(',');
  const { protocol, pathname } = new URL(`${start}${first}${rest}`);
  return `${protocol}//${hosts}${pathname}`;
}

/** The same URL, whose server must have a certificate of the authorities in this file. The driver reads the file for each connection. */
export function withAuthorities(url: string, caFile: string): string {
  return `${url}${url.includes('?') ? '&' : '?'}sslrootcert=${encodeURIComponent(caFile)}`;
}

/** The same URL for a connection that is given the text of the file. TLS stays on, and the driver lets the last `sslmode` count. */
export function withoutAuthorities(url: string): string {
  return url.replace(/(?<=[?&])sslrootcert=[^&]*/, 'sslmode=verify-full');
}
