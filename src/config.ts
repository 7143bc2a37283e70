import { type AccessSettings, HOW_TO_SET_AUTH, readAccess } from './access/access-settings.js';
import type { CertificateFiles } from './http/connections/certificate-files.js';
import { CONNECTION_LIMITS } from './http/connections/connection-limits.js';
import { readTrustedNetworks, TRUSTED_NETWORKS_FORM } from './http/connections/trusted-networks.js';
import {
  FORMER_NAMES_FORM,
  PROCESSOR_ACCOUNT_FORM,
  PROCESSOR_URL_FORM,
  type ProcessorLocation,
  readFormerNames,
  readProcessorAccount,
  readProcessorUrl,
} from './payments/processors/processor-url.js';
import { SIMULATED } from './payments/values/processor-names.js';
import { misspeltSettings } from './platform/misspelt-settings.js';
import type { SettingFile } from './platform/setting-files.js';
import { type Environment, Settings } from './platform/settings.js';
import { DATABASE_URL_FORM, readDatabaseUrl, withAuthorities } from './stores/postgres/connection/url.js';
import { REDIS_URL_FORMS, type RedisLocation, readRedisUrl } from './stores/redis/connection/url.js';
import { readTraces, type TraceSettings } from './traces/trace-settings.js';

/** The settings of rule G3: environment variables in, one frozen Config out. */
export interface Config {
  readonly host: string;
  readonly port: number;
  /** Time from a signal to the closing of the port, in which load balancers notice that this process is not ready. */
  readonly drainDelayMs: number;
  readonly logLevel: LogLevel;
  /** Limit for each client. Undefined if there is none. */
  readonly requestsPerMinute: number | undefined;
  /** Open at once, at most. */
  readonly maxConnections: number;
  /** Undefined if the service has no TLS of its own. */
  readonly certificateFiles: CertificateFiles | undefined;
  /** Proxies whose X-Forwarded-For header is trusted. Undefined if no proxy is. */
  readonly trustedNetworks: readonly string[] | undefined;
  readonly access: AccessSettings;
  readonly deployment: DeploymentSettings;
  readonly payments: PaymentSettings;
  readonly transactionCacheTtlMs: number;
  readonly processor: ProcessorSettings;
  /** The file of endpoints that are told of settlements. Undefined if there is none. */
  readonly webhooksFile: string | undefined;
  /** Undefined if traces are off. */
  readonly traces: TraceSettings | undefined;
  /** Secrets that were given as files. */
  readonly secretFiles: readonly SettingFile[];
  /** Authorities that were given as files. */
  readonly authorityFiles: readonly SettingFile[];
}

/**
 * One process on one folder, or any number of them on Redis and PostgreSQL; no mixtures (rule G2). `migrations`: a folder in place of this
 * version's, which no setting names.
 */
export type DeploymentSettings =
  | { readonly kind: 'embedded'; readonly dataDir: string; readonly migrations?: URL | undefined }
  | {
      readonly kind: 'distributed';
      readonly redis: RedisLocation;
      readonly databaseUrl: string;
      /** The content of the file that `databaseUrl` names for its authorities. */
      readonly databaseCa?: string | undefined;
      readonly databasePoolSize: number;
      readonly migrations?: URL | undefined;
    };

export type TransferEnds = Pick<Extract<DeploymentSettings, { kind: 'embedded' }>, 'dataDir'> &
  Pick<Extract<DeploymentSettings, { kind: 'distributed' }>, 'redis' | 'databaseUrl'>;

export interface PaymentSettings {
  readonly idempotencyTtlMs: number;
  readonly leaseMs: number;
  readonly payloadMismatch: 'replay' | 'reject';
  /** Payments under way at once in this process, at most. */
  readonly maxInFlight: number;
  /** How long a finished payment is kept after its end. Undefined if it is kept for ever. */
  readonly retentionMs: number | undefined;
}

/** `dedupMs`: how long after its claim a payment's reference may be sent again; 0: never, it is only looked up. */
export type ProcessorSettings =
  | {
      readonly kind: 'simulated';
      /** `PROCESSOR_URL` asks for it; otherwise it is unset. */
      readonly isNamed: boolean;
      readonly delayMs: number;
      readonly dedupMs: number;
    }
  | {
      readonly kind: 'http';
      readonly url: string;
      /** The certificates (PEM) of the authorities that the server is trusted by. Those that Node.js brings along if it is undefined. */
      readonly ca: string | undefined;
      /** The account that is charged there. Undefined if the URL's user names it. */
      readonly account: string | undefined;
      /** Under which earlier payments of the same account were claimed (rule P14). */
      readonly formerNames: readonly string[];
      /** A person has compared the processor's charges with the rows since rows were lost. */
      readonly isLossAccepted: boolean;
      readonly timeoutMs: number;
      readonly dedupMs: number;
    };

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

const SECOND_MS = 1000;
const DAY_SECONDS = 86_400;
/** Ten years: far beyond any use, and every deadline computed from it stays an exact integer. */
const MAX_TTL_DAYS = 3650;
const MAX_TTL_SECONDS = MAX_TTL_DAYS * DAY_SECONDS;
/**
 * Payments under way at once. Over HTTP each needs a connection: together with recovery's connections 256, few enough for any limit of
 * descriptors. A simulated one needs memory only.
 */
const MOST_IN_FLIGHT = { http: 192, simulated: 10_000 } as const;
/** More than the fastest service serves in a minute: a higher limit would have no effect. */
const MOST_REQUESTS = 10_000_000;
/** How much longer than a call a lease must be: the commit of the claim uses a part of it, so with less no charge could be sent. */
const COMMIT_MARGIN_MS = 100;
/** `setTimeout` fires at once for anything longer than 2^31 - 1 ms. */
const MAX_TIMER_MS = 2_147_483_647;

/** The environment is unusable; `problems` has one readable sentence for each setting that is wrong. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  constructor(readonly problems: readonly string[]) {
    super(`The settings cannot be used:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`);
  }
}

/** Reads and checks all settings at once. Throws ConfigError with every problem found, not only the first. */
export function readConfig(environment: Environment): Config {
  const problems: string[] = [];
  const config = readSettings(new Settings(environment, problems));
  if (problems.length > 0) throw new ConfigError([...problems, ...doubtsAbout(environment)]);
  return deepFreeze(config);
}

/** Both ends of `idempay transfer`: the folder of the embedded deployment, and the stores of the distributed one. Throws ConfigError. */
export function readTransferEnds(environment: Environment): TransferEnds {
  const problems: string[] = [];
  const settings = new Settings(environment, problems);
  const deployment = readDeployment(settings, readAuthorities(settings));
  if (deployment.kind === 'distributed') return { ...deployment, dataDir: readDataDir(settings) };
  if (problems.length === 0) {
    problems.push('REDIS_URL and DATABASE_URL are not set: set them to the stores that the deployment is to move to');
  }
  throw new ConfigError([...problems, ...doubtsAbout(environment)]);
}

/** The folder alone. */
export function readDataDir(settings: Settings): string {
  return settings.text('DATA_DIR', './data');
}

/** The name of every setting with its default. */
export function settingDefaults(): ReadonlyMap<string, string> {
  const settings = new Settings({}, []);
  readSettings(settings);
  return settings.defaults;
}

/** One sentence for each variable that was probably meant to be a setting and has another name. */
export function doubtsAbout(environment: Environment): string[] {
  return misspeltSettings(environment, [...settingDefaults().keys()]).map(
    ({ name, meant }) => `${name} is not a setting of Idempay and is ignored: ${meant} was probably meant`,
  );
}

function readSettings(settings: Settings): Config {
  const host = settings.text('HOST', '127.0.0.1');
  const port = settings.integer('PORT', 8080, 0, 65_535);
  const drainDelayMs = settings.integer('DRAIN_DELAY_SECONDS', 0, 0, 3_600) * SECOND_MS;
  const payments = readPayments(settings);
  const authorities = readAuthorities(settings);
  const config: Config = {
    host,
    port,
    drainDelayMs,
    requestsPerMinute: settings.has('RATE_LIMIT_PER_MINUTE')
      ? settings.integer('RATE_LIMIT_PER_MINUTE', MOST_REQUESTS, 1, MOST_REQUESTS)
      : undefined,
    maxConnections: settings.integer('MAX_CONNECTIONS', CONNECTION_LIMITS.maxConnections, 1, 1_000_000),
    certificateFiles: readCertificateFiles(settings),
    trustedNetworks: readProxies(settings),
    access: readAccess(settings, host),
    logLevel: settings.choice('LOG_LEVEL', 'info', LOG_LEVELS),
    deployment: readDeployment(settings, authorities),
    payments,
    transactionCacheTtlMs:
      settings.integer('TRANSACTION_CACHE_TTL_SECONDS', 300, 1, Math.floor(MAX_TIMER_MS / SECOND_MS)) * SECOND_MS,
    processor: readProcessor(settings, payments.leaseMs, authorities.processor),
    webhooksFile: settings.optional('WEBHOOKS_FILE'),
    traces: readTraces(settings),
    secretFiles: settings.secretFiles,
    authorityFiles: Object.values(authorities).filter((file) => file !== undefined),
  };
  refuseMissing(settings);
  return config;
}

/**
 * `REQUIRED_SETTINGS` stands in the definition of a service (a unit, a container), and the settings that it names come from a file or a
 * secret. If that goes missing, no default takes its place.
 */
function refuseMissing(settings: Settings): void {
  const names = settings.parsed('REQUIRED_SETTINGS', readNames, NAMES_FORM) ?? [];
  for (const name of names) {
    if (!settings.defaults.has(name)) settings.problem(`REQUIRED_SETTINGS names ${name}, which is not a setting`);
    else if (!settings.has(name)) {
      const value = name === 'PROCESSOR_URL' ? `the processor's address, or to ${SIMULATED}` : 'its value';
      settings.problem(`${name} is not set, and REQUIRED_SETTINGS names it: set it to ${value}`);
    }
  }
}

const NAMES_FORM = 'NAME,NAME, with the names of settings';

function readNames(text: string): readonly string[] | undefined {
  const names = text.split(',').map((name) => name.trim());
  return names.every((name) => /^[A-Z][A-Z0-9_]*$/.test(name)) ? names : undefined;
}

/** The names that rows have for this service's processor. The present one comes first. */
export function processorNames({ processor }: Pick<Config, 'processor'>): readonly string[] {
  if (processor.kind === 'simulated') return [SIMULATED];
  // The configuration was read, so the URL has its form.
  const { name } = readProcessorUrl(processor.url, processor.account) as ProcessorLocation;
  return [name, ...processor.formerNames];
}

function readCertificateFiles(settings: Settings): CertificateFiles | undefined {
  const certFile = settings.optional('TLS_CERT_FILE');
  const keyFile = settings.optional('TLS_KEY_FILE');
  if ((certFile === undefined) !== (keyFile === undefined)) {
    const [present, absent] =
      certFile === undefined ? ['TLS_KEY_FILE', 'TLS_CERT_FILE'] : ['TLS_CERT_FILE', 'TLS_KEY_FILE'];
    settings.problem(`${present} is set but ${absent} is not: set both (TLS) or neither`);
  }
  return certFile !== undefined && keyFile !== undefined ? { certFile, keyFile } : undefined;
}

/** Behind a proxy others reach the service with any HOST (rule A1). */
function readProxies(settings: Settings): readonly string[] | undefined {
  const networks = settings.parsed('TRUST_PROXY', readTrustedNetworks, TRUSTED_NETWORKS_FORM);
  if (networks && !settings.has('AUTH')) {
    settings.problem(`TRUST_PROXY is set, so others reach the service: ${HOW_TO_SET_AUTH}`);
  }
  return networks;
}

type Authorities = Readonly<Record<'redis' | 'database' | 'processor', SettingFile | undefined>>;

function readAuthorities(settings: Settings): Authorities {
  return {
    redis: settings.authorities('REDIS_CA_FILE'),
    database: settings.authorities('DATABASE_CA_FILE'),
    processor: settings.authorities('PROCESSOR_CA_FILE'),
  };
}

function readDeployment(settings: Settings, authorities: Authorities): DeploymentSettings {
  const redis = settings.parsed('REDIS_URL', readRedisUrl, REDIS_URL_FORMS);
  const databaseUrl = settings.parsed('DATABASE_URL', readDatabaseUrl, DATABASE_URL_FORM);
  if (redis && !redis.tls && authorities.redis) {
    settings.problem('REDIS_CA_FILE is set, and REDIS_URL is without TLS: write rediss');
  }
  if (
    databaseUrl &&
    authorities.database &&
    /[?&](sslmode=(disable|no-verify|prefer)|sslrootcert=)/.test(databaseUrl)
  ) {
    settings.problem(
      'DATABASE_CA_FILE is set: remove sslrootcert from DATABASE_URL, and set sslmode=verify-full there',
    );
  }
  const databasePoolSize = settings.integer('DATABASE_POOL_SIZE', 10, 2, 1_000);
  const dataDir = readDataDir(settings);
  for (const [present, absent] of [
    ['REDIS_URL', 'DATABASE_URL'],
    ['DATABASE_URL', 'REDIS_URL'],
  ] as const) {
    if (settings.has(present) && !settings.has(absent)) {
      settings.problem(`${present} is set but ${absent} is not: set both (distributed) or neither (embedded)`);
    }
  }
  return redis && databaseUrl
    ? {
        kind: 'distributed',
        redis: { ...redis, ca: authorities.redis?.text },
        databaseUrl: authorities.database ? withAuthorities(databaseUrl, authorities.database.path) : databaseUrl,
        databaseCa: authorities.database?.text,
        databasePoolSize,
      }
    : { kind: 'embedded', dataDir };
}

function readPayments(settings: Settings): PaymentSettings {
  const url = settings.optional('PROCESSOR_URL') ?? SIMULATED;
  const processorKind = url === SIMULATED ? 'simulated' : 'http';
  const idempotencyTtlMs = settings.integer('IDEMPOTENCY_TTL_SECONDS', DAY_SECONDS, 1, MAX_TTL_SECONDS) * SECOND_MS;
  const retentionMs = settings.has('PAYMENT_RETENTION_DAYS')
    ? settings.integer('PAYMENT_RETENTION_DAYS', MAX_TTL_DAYS, 1, MAX_TTL_DAYS) * DAY_SECONDS * SECOND_MS
    : undefined;
  if (retentionMs !== undefined && retentionMs < idempotencyTtlMs) {
    settings.problem(
      'PAYMENT_RETENTION_DAYS must be at least IDEMPOTENCY_TTL_SECONDS: a payment is kept while its key is still answered',
    );
  }
  return {
    idempotencyTtlMs,
    leaseMs: settings.integer('LOCK_TTL_SECONDS', 30, 1, DAY_SECONDS) * SECOND_MS,
    payloadMismatch: settings.choice('PAYLOAD_MISMATCH', 'replay', ['replay', 'reject'] as const),
    maxInFlight: settings.integer('MAX_PAYMENTS_IN_FLIGHT', MOST_IN_FLIGHT[processorKind], 1, 100_000),
    retentionMs,
  };
}

/** Every setting is checked; one that belongs to the other processor is valid and unused. */
function readProcessor(settings: Settings, leaseMs: number, authorities: SettingFile | undefined): ProcessorSettings {
  const url = settings.parsed(
    'PROCESSOR_URL',
    (text) => (text === SIMULATED || readProcessorUrl(text) ? text : undefined),
    `${PROCESSOR_URL_FORM}; or ${SIMULATED}`,
  );
  const account = settings.parsed('PROCESSOR_ACCOUNT', readProcessorAccount, PROCESSOR_ACCOUNT_FORM);
  const formerNames = settings.parsed('PROCESSOR_FORMER_NAMES', readFormerNames, FORMER_NAMES_FORM) ?? [];
  const accept = settings.parsed('PROCESSOR_LOST_ROWS', (text) => (text === 'accept' ? text : undefined), 'accept');
  const delayMs = settings.integer('PROCESSOR_DELAY_MS', 0, 0, MAX_TIMER_MS);
  const timeoutMs = settings.integer('PROCESSOR_TIMEOUT_MS', 10_000, 1, MAX_TIMER_MS);
  const dedupMs = settings.integer('PROCESSOR_DEDUP_SECONDS', 72_000, 0, MAX_TTL_SECONDS) * SECOND_MS;
  if (url === undefined || url === SIMULATED) {
    return { kind: 'simulated', isNamed: url === SIMULATED, delayMs, dedupMs };
  }
  if (authorities && !url.startsWith('https:')) {
    settings.problem('PROCESSOR_CA_FILE is set, and PROCESSOR_URL is without TLS: write https');
  }
  if (timeoutMs > leaseMs - COMMIT_MARGIN_MS) {
    settings.problem(
      `PROCESSOR_TIMEOUT_MS must be less than LOCK_TTL_SECONDS, by at least ${COMMIT_MARGIN_MS} ms: a call must end within its lease`,
    );
  }
  return {
    kind: 'http',
    url,
    ca: authorities?.text,
    account,
    formerNames,
    isLossAccepted: accept !== undefined,
    timeoutMs,
    dedupMs,
  };
}

function deepFreeze<T extends object>(value: T): T {
  for (const member of Object.values(value)) {
    if (typeof member === 'object' && member !== null) deepFreeze(member);
  }
  return Object.freeze(value);
}
