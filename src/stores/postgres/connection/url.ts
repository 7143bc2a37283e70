/** The expected form, for the error message. */
export const DATABASE_URL_FORM = 'postgres://user:password@host:5432/database';

/** The text itself, which the driver reads; undefined when it is no URL of PostgreSQL. */
export function readDatabaseUrl(text: string): string | undefined {
  return URL.canParse(text) && ['postgres:', 'postgresql:'].includes(new URL(text).protocol) ? text : undefined;
}

/** The URL without user, password and parameters, which may hold a password as well; for logs. */
export function databaseName(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}
