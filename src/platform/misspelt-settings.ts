/** Names that others use for a setting of ours. */
const ALIASES: Readonly<Record<string, readonly string[]>> = {
  REDIS_URL: [
    'REDIS_DSN',
    'REDIS_CONNECTION_STRING',
    'REDIS_ADDRESS',
    'REDIS_SENTINEL_URL',
    'REDIS_CLUSTER_URL',
    'VALKEY_URL',
    'VALKEY_URI',
  ],
  DATABASE_URL: [
    ...[
      'POSTGRES_URL',
      'POSTGRES_URI',
      'POSTGRES_DSN',
      'POSTGRES_CONNECTION_STRING',
      'POSTGRESQL_URL',
      'POSTGRESQL_URI',
    ],
    ...['PG_URL', 'PG_URI', 'DB_URL', 'DB_URI', 'DB_DSN', 'DATABASE_DSN', 'DATABASE_CONNECTION_STRING'],
  ],
  DATA_DIR: ['DATA_FOLDER', 'DATA_PATH', 'DATA_DIRECTORY'],
  DATABASE_POOL_SIZE: ['POOL_SIZE', 'DATABASE_POOL', 'DB_POOL_SIZE', 'PG_POOL_SIZE'],
  PROCESSOR_URL: ['PAYMENT_PROCESSOR_URL', 'PROCESSOR_ENDPOINT', 'PROCESSOR_ADDRESS', 'PSP_URL'],
  IDEMPOTENCY_TTL_SECONDS: ['KEY_TTL_SECONDS', 'IDEMPOTENCY_KEY_TTL_SECONDS'],
  LOCK_TTL_SECONDS: ['LEASE_SECONDS', 'LOCK_SECONDS'],
  PAYMENT_RETENTION_DAYS: ['RETENTION_DAYS'],
  OTEL_EXPORTER_OTLP_ENDPOINT: ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'],
};

/** Settings of the commands, the reference processor and OpenSSL, which may share an environment with the service. */
const NOT_OURS = new Set([
  ...['CHARGE_LOG', 'PROCESSOR_HOST', 'PROCESSOR_PORT', 'PROCESSOR_LATENCY_MS', 'PROCESSOR_REPLY_LATENCY_MS'],
  ...['PROCESSOR_DECLINE_RATE', 'PROCESSOR_FAIL_RATE', 'PROCESSOR_LOST_REPLY_RATE', 'PROCESSOR_DEDUPLICATE'],
  ...['PROCESSOR_REFUSE_WITH'],
  ...['IDEMPAY_URL', 'IDEMPAY_API_KEY', 'IDEMPAY_API_KEY_FILE'],
  'SSL_CERT_FILE',
]);
/** Kubernetes describes each service by such values, under names made from the service's. */
const SERVICE_ADDRESS = /^(tcp|udp|sctp):\/\//;
/** Shorter names (HOST, PORT) are too common a word to be taken for a mistake. */
const LEAST_LENGTH = 8;
const UNIT = /_(MS|MILLIS|MILLISECONDS|S|SEC|SECS|SECONDS|MIN|MINUTES|HOURS|DAYS)$/;

/**
 * Variables that look like a setting and are none, with the setting that was probably meant. Settings that
 * are set are not suggested; empty variables are ignored.
 */
export function misspeltSettings(
  environment: Readonly<Record<string, string | undefined>>,
  names: readonly string[],
): { readonly name: string; readonly meant: string }[] {
  const isSet = (name: string) => Boolean(environment[name]?.trim());
  const open = names.filter((name) => !isSet(name));
  return Object.keys(environment).flatMap((name) => {
    if (names.includes(name) || NOT_OURS.has(name) || !isSet(name)) return [];
    if (SERVICE_ADDRESS.test(environment[name] ?? '')) return [];
    const meant = meantBy(name, open);
    return meant === undefined ? [] : [{ name, meant }];
  });
}

function meantBy(name: string, settings: readonly string[]): string | undefined {
  const given = name.toUpperCase().replaceAll('-', '_');
  const prefixed = /^IDEMPAY_(.+)$/.exec(given)?.[1];
  if (prefixed !== undefined && settings.includes(prefixed)) return prefixed;
  const alias = settings.find((setting) => ALIASES[setting]?.includes(prefixed ?? given));
  return alias ?? nearest(prefixed ?? given, settings);
}

function nearest(given: string, settings: readonly string[]): string | undefined {
  const near = settings
    .filter((setting) => setting.length >= LEAST_LENGTH)
    .map((setting) => ({ setting, edits: editsFor(given, setting) }))
    .filter(({ setting, edits }) => edits <= tolerance(setting))
    .sort((a, b) => a.edits - b.edits);
  return near[0]?.setting;
}

/** One mistake, two in a longer name, three in the longest. */
function tolerance({ length }: string): number {
  return length < 12 ? 1 : length < 20 ? 2 : 3;
}

/** Ignores underscores and the unit: LOCKTTL_MS is near LOCK_TTL_SECONDS. */
function editsFor(given: string, setting: string): number {
  const bare = (name: string) => name.replace(UNIT, '').replaceAll('_', '');
  if (bare(given) === bare(setting)) return 0;
  // So many letters at least are put in or left out.
  const least = Math.abs(given.length - setting.length);
  return least > tolerance(setting) ? least : editDistance(given, setting);
}

/** Letters put in, left out, exchanged for another, or swapped with their neighbour (optimal string alignment). */
function editDistance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  for (let row = 1; row <= a.length; row += 1) {
    const above = rows[row - 1] ?? [];
    const current = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const isSame = a[row - 1] === b[column - 1];
      let edits = Math.min(
        (above[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (above[column - 1] ?? 0) + (isSame ? 0 : 1),
      );
      if (areSwapped(a, row, b, column)) edits = Math.min(edits, (rows[row - 2]?.[column - 2] ?? 0) + 1);
      current.push(edits);
    }
    rows.push(current);
  }
  return rows[a.length]?.[b.length] ?? 0;
}

/** True if the two letters before these places are swapped. */
function areSwapped(a: string, row: number, b: string, column: number): boolean {
  return row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
}
