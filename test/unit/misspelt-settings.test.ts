import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ConfigError, doubtsAbout, readConfig, settingDefaults } from '#idempay/config.js';

/** The settings that were probably meant, each with the name that was given. */
function meantBy(environment: Record<string, string>): string[] {
  return doubtsAbout(environment).map((sentence) => {
    const [, given, meant] = /^(\S+) is not a setting .*: (\S+) was probably meant$/.exec(sentence) ?? [];
    return `${given} ${meant}`;
  });
}

/** For each setting, names that were probably meant to be it. */
const MISSPELT: Readonly<Record<string, string>> = {
  PROCESSOR_URL: 'PROCESOR_URL PROCCESSOR_URL PROCESSOR_ULR PROCESSOR_URI PAYMENT_PROCESSOR_URL',
  REDIS_URL: 'REDIS_URI redis_url REDISURL VALKEY_URL IDEMPAY_REDIS_URI',
  DATABASE_URL: 'POSTGRES_URL POSTGRESQL_URI DATABASE_URI DATABSE_URL',
  DATA_DIR: 'DATADIR DATA_DIRECTORY',
  LOG_LEVEL: 'LOGLEVEL log-level',
  LOCK_TTL_SECONDS: 'LOCK_TTL LOCK_TTL_MS',
  PROCESSOR_TIMEOUT_MS: 'PROCESSOR_TIMEOUT PROCESSOR_TIMEOUT_SECONDS',
  IDEMPOTENCY_TTL_SECONDS: 'IDEMPOTENCY_TTL IDEMPOTENCE_TTL_SECONDS',
  PAYLOAD_MISMATCH: 'PAYLOAD_MISSMATCH',
  PAYMENT_RETENTION_DAYS: 'RETENTION_DAYS',
  PORT: 'IDEMPAY_PORT',
};

test.each(Object.entries(MISSPELT))('%s is named as what was probably meant by %s', (meant, names) => {
  for (const given of names.split(' ')) expect(meantBy({ [given]: 'something' })).toEqual([`${given} ${meant}`]);
});

test('a setting with one letter left out, put in, exchanged or swapped is named, whichever it is', () => {
  for (const name of [...settingDefaults().keys()].filter(({ length }) => length >= 8)) {
    const middle = Math.floor(name.length / 2);
    const [left, right] = [name.slice(0, middle), name.slice(middle)];
    const swapped = left.slice(0, -1) + right.slice(0, 1) + left.slice(-1) + right.slice(1);
    for (const given of [left + right.slice(1), `${left}Q${right}`, `${left}Q${right.slice(1)}`, swapped]) {
      if (given !== name) expect(meantBy({ [given]: 'something' }), given).toEqual([`${given} ${name}`]);
    }
  }
});

test('nothing is said of a name whose setting is set itself, nor of an empty one, nor of the settings themselves', () => {
  expect(meantBy({ POSTGRES_URL: 'postgres://other/app', DATABASE_URL: 'postgres://ours/app' })).toEqual([]);
  expect(meantBy({ PROCESOR_URL: '' })).toEqual([]);
  expect(meantBy(Object.fromEntries([...settingDefaults().keys()].map((name) => [name, '1'])))).toEqual([]);
});

test('a start that ends for another setting names the misspelt one as well', () => {
  const environment = { REDIS_URL: 'redis://127.0.0.1', DATABSE_URL: 'postgres://127.0.0.1/idempay' };
  expect(() => readConfig(environment)).toThrow(ConfigError);
  expect(() => readConfig(environment)).toThrow(/DATABSE_URL .*DATABASE_URL was probably meant/);
});

/** Of shells, desktops, Windows, Node and npm, CI, containers, clouds and the programs of the two stores. */
const USUAL = `
  PATH HOME USER LOGNAME SHELL PWD OLDPWD SHLVL TERM TERM_PROGRAM COLORTERM LANG LANGUAGE LC_ALL LC_CTYPE TZ EDITOR VISUAL PAGER
  MAIL HOSTNAME HOSTTYPE OSTYPE MACHTYPE DISPLAY WAYLAND_DISPLAY TMPDIR TEMP TMP SSH_AUTH_SOCK SSH_CONNECTION SSH_CLIENT SSH_TTY
  XDG_DATA_DIRS XDG_DATA_HOME XDG_CONFIG_HOME XDG_RUNTIME_DIR XDG_SESSION_ID XDG_CACHE_HOME DBUS_SESSION_BUS_ADDRESS LS_COLORS
  PORTAGE_TMPDIR PORTDIR PORTAGE_CONFIGROOT PORTAGE_BINHOST DEBIAN_FRONTEND LD_LIBRARY_PATH LD_PRELOAD PYTHONPATH JAVA_HOME GOPATH
  PROCESSOR_ARCHITECTURE PROCESSOR_IDENTIFIER PROCESSOR_LEVEL PROCESSOR_REVISION NUMBER_OF_PROCESSORS COMPUTERNAME USERNAME
  USERPROFILE APPDATA LOCALAPPDATA PROGRAMDATA PROGRAMFILES SYSTEMROOT WINDIR COMSPEC PATHEXT HOMEDRIVE HOMEPATH LOGONSERVER
  NODE_ENV NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS NODE_VERSION YARN_VERSION NVM_DIR NVM_BIN UV_THREADPOOL_SIZE NO_COLOR FORCE_COLOR
  npm_config_loglevel npm_config_cache npm_config_registry npm_package_name npm_package_version npm_lifecycle_event npm_execpath
  npm_node_execpath npm_command INIT_CWD npm_config_user_agent npm_config_prefix npm_config_local_prefix npm_config_node_gyp
  CI GITHUB_ACTIONS GITHUB_SHA GITHUB_WORKSPACE RUNNER_OS RUNNER_TEMP GITLAB_CI CI_COMMIT_SHA BUILD_NUMBER JENKINS_URL BUILD_URL JOB_URL
  KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT KUBERNETES_PORT KUBERNETES_PORT_443_TCP REDIS_SERVICE_HOST REDIS_SERVICE_PORT
  REDIS_PORT REDIS_HOST REDIS_PASSWORD REDIS_VERSION REDIS_DOWNLOAD_URL POSTGRES_USER POSTGRES_PASSWORD POSTGRES_DB POSTGRES_HOST
  POSTGRES_PORT POD_NAME POD_NAMESPACE POD_IP NODE_NAME container DOCKER_HOST INVOCATION_ID JOURNAL_STREAM LISTEN_FDS NOTIFY_SOCKET
  IDEMPAY_SERVICE_HOST IDEMPAY_SERVICE_PORT IDEMPAY_PORT_8080_TCP_ADDR DATABASE_HOST DATABASE_NAME DATABASE_USER DATABASE_PASSWORD
  PGHOST PGPORT PGUSER PGPASSWORD PGDATABASE PGSSLMODE PGDATA PGAPPNAME DYNO WEB_CONCURRENCY SENTRY_DSN BASE_URL API_URL SERVICE_URL
  AWS_REGION AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_LAMBDA_LOG_LEVEL GOOGLE_CLOUD_PROJECT K_SERVICE VERCEL_URL RENDER_SERVICE_NAME
  HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy RUST_LOG DEBUG LOG_FORMAT LOG_DIR DATA_CENTER KAFKA_URL MONGO_URL AMQP_URL
  OTEL_EXPORTER_OTLP_ENDPOINT OTEL_SERVICE_NAME OTEL_LOG_LEVEL SERVER_PORT HTTP_PORT host port _
`;

test('nothing is said of the variables that any environment has', () => {
  const names = USUAL.trim().split(/\s+/);
  expect(names.length).toBeGreaterThan(180);
  expect(meantBy(Object.fromEntries(names.map((name) => [name, 'something'])))).toEqual([]);
  expect(meantBy({ IDEMPAY_PORT: 'tcp://10.0.0.7:8080' })).toEqual([]);
});

test('nothing is said of the settings of the reference processor, which may share the environment', () => {
  const source = readFileSync(new URL('../../src/reference-processor/settings.ts', import.meta.url), 'utf8');
  const names = [...source.matchAll(/'([A-Z]+_[A-Z_]+)'/g)].map(([, name]) => name ?? '');
  expect(names.length).toBeGreaterThan(8);
  expect(meantBy(Object.fromEntries(names.map((name) => [name, '1'])))).toEqual([]);
});
