import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { type Config, ConfigError, doubtsAbout, readConfig, settingDefaults } from '#idempay/config.js';
import { refusalOfNode } from '#idempay/node-version.js';

/** The problems of an environment; none when it can be used. */
function problemsOf(environment: Record<string, string | undefined>): readonly string[] {
  try {
    readConfig(environment);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}

const TEN_YEARS_SECONDS = 315_360_000;
const LONGEST_TIMER_MS = 2_147_483_647;
const PROCESSOR = 'https://processor.example/v1';

/** Each numeric setting with its bounds, the place of its value, and its unit there. */
const NUMBERS: readonly [string, least: number, most: number, (config: Config) => unknown, factor: number][] = [
  ['PORT', 0, 65_535, (config) => config.port, 1],
  ['RATE_LIMIT_PER_MINUTE', 1, 10_000_000, (config) => config.requestsPerMinute, 1],
  ['MAX_CONNECTIONS', 1, 1_000_000, (config) => config.maxConnections, 1],
  ['DRAIN_DELAY_SECONDS', 0, 3_600, (config) => config.drainDelayMs, 1000],
  ['IDEMPOTENCY_TTL_SECONDS', 1, TEN_YEARS_SECONDS, (config) => config.payments.idempotencyTtlMs, 1000],
  ['LOCK_TTL_SECONDS', 1, 86_400, (config) => config.payments.leaseMs, 1000],
  ['MAX_PAYMENTS_IN_FLIGHT', 1, 100_000, (config) => config.payments.maxInFlight, 1],
  ['PAYMENT_RETENTION_DAYS', 1, 3650, (config) => config.payments.retentionMs, 86_400_000],
  ['TRANSACTION_CACHE_TTL_SECONDS', 1, 2_147_483, (config) => config.transactionCacheTtlMs, 1000],
  ['PROCESSOR_DELAY_MS', 0, LONGEST_TIMER_MS, ({ processor }) => 'delayMs' in processor && processor.delayMs, 1],
  ['PROCESSOR_DEDUP_SECONDS', 0, TEN_YEARS_SECONDS, (config) => config.processor.dedupMs, 1000],
];

describe('the settings', () => {
  test('have the defaults of rule G3 when nothing is set, or what is set is empty', () => {
    const defaults = readConfig({});
    expect(defaults).toMatchObject({
      host: '127.0.0.1',
      port: 8080,
      drainDelayMs: 0,
      requestsPerMinute: undefined,
      maxConnections: 10_000,
      logLevel: 'info',
      deployment: { kind: 'embedded', dataDir: './data' },
      payments: {
        idempotencyTtlMs: 86_400_000,
        leaseMs: 30_000,
        payloadMismatch: 'replay',
        retentionMs: undefined,
      },
      transactionCacheTtlMs: 300_000,
      processor: { kind: 'simulated', isNamed: false, delayMs: 0, dedupMs: 72_000_000 },
      webhooksFile: undefined,
      traces: undefined,
    });
    for (const empty of ['', ' \t']) {
      const environment = Object.fromEntries([...settingDefaults().keys()].map((name) => [name, empty]));
      expect(readConfig(environment)).toEqual(defaults);
    }
    expect(readConfig({ PATH: '/bin', PORTS: 'x', port: 'x' })).toEqual(defaults);
  });

  test('are read without the white space around them, and cannot be changed', () => {
    const config = readConfig({
      HOST: ' 0.0.0.0 ',
      AUTH: 'none',
      DATA_DIR: '/data',
      PAYLOAD_MISMATCH: 'reject',
      PORT: ' 1 ',
    });
    expect(config).toMatchObject({ host: '0.0.0.0', port: 1, deployment: { dataDir: '/data' } });
    expect(config).toHaveProperty('payments.payloadMismatch', 'reject');
    expect(() => Object.assign(config, { port: 1 })).toThrow(TypeError);
    expect(() => Object.assign(config.payments, { leaseMs: 1 })).toThrow(TypeError);
  });

  test.each(NUMBERS)('%s is a whole number from %i to %i', (name, least, most, read, factor) => {
    for (const value of [least, most]) expect(read(readConfig({ [name]: `${value}` }))).toBe(value * factor);
    const sentence = `${name} must be a whole number from ${least} to ${most}`;
    const wrong = [least - 1, most + 1, 1.5, '1e1', '0x1', 'ten', '1 0', '1_0', 'Infinity', '9'.repeat(30), '１'];
    for (const value of wrong) expect(problemsOf({ [name]: `${value}` })).toEqual([expect.stringContaining(sentence)]);
  });

  test('with choices are taken as they are written there, and refused with the choices', () => {
    for (const level of ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']) {
      expect(readConfig({ LOG_LEVEL: level }).logLevel).toBe(level);
    }
    for (const level of ['verbose', 'INFO', 'toString']) {
      const sentence = expect.stringMatching(`^LOG_LEVEL must be one of trace, .*, silent, not '${level}'$`);
      expect(problemsOf({ LOG_LEVEL: level })).toEqual([sentence]);
    }
    const sentence = "PAYLOAD_MISMATCH must be one of replay, reject, not 'Reject'";
    expect(problemsOf({ PAYLOAD_MISMATCH: 'Reject' })).toEqual([sentence]);
  });

  test('that are wrong are all reported at once, each in a sentence that names it', () => {
    const wrong = {
      ...Object.fromEntries(NUMBERS.map(([name]) => [name, '-1'])),
      ...{ LOG_LEVEL: 'loud', PAYLOAD_MISMATCH: 'maybe', PROCESSOR_TIMEOUT_MS: '0', PROCESSOR_ACCOUNT: 'shop 7' },
      ...{ REDIS_URL: 'http://example.com', DATABASE_URL: 'nonsense', PROCESSOR_URL: 'ftp://example.com' },
      ...{ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318', OTEL_TRACES_SAMPLER: 'some', OTEL_TRACES_SAMPLER_ARG: '2' },
    };
    const problems = problemsOf(wrong);
    expect(problems.map((problem) => problem.split(' ')[0]).sort()).toEqual(Object.keys(wrong).sort());
    for (const problem of problems) expect(() => readConfig(wrong)).toThrow(problem);
    expect(problems).toContainEqual(expect.stringContaining('PROCESSOR_URL must have the form http://host/path'));
  });

  test('of one store alone are refused with a sentence that names the other one, and what it was misspelt as', () => {
    const about = (environment: Record<string, string>) => problemsOf(environment).join();
    expect(about({ DATABASE_URL: 'postgres://h/idempay' })).toMatch(/^DATABASE_URL is set but REDIS_URL is not/);
    const sentence = /^REDIS_URL is set but DATABASE_URL is not.*DATABSE_URL .*DATABASE_URL was probably meant/;
    expect(about({ REDIS_URL: 'redis://h', DATABSE_URL: 'postgres://h/idempay' })).toMatch(sentence);
  });

  test('never show a password in a problem, whatever is wrong with the URL', () => {
    const secret = 'hunter2-hunter2';
    const urls = [`http://u:${secret}@h?a=b`, `redis//u:${secret}@h`, `postgres://u:${secret}@h:port`, `u:${secret}`];
    for (const name of ['REDIS_URL', 'DATABASE_URL', 'PROCESSOR_URL', 'OTEL_EXPORTER_OTLP_ENDPOINT']) {
      for (const url of urls) {
        const problems = problemsOf({ [name]: url, PORT: 'x' });
        expect(problems.length, `${name}=${url}`).toBeGreaterThanOrEqual(2);
        expect(problems.join()).not.toContain(secret);
      }
    }
  });

  test('of traces are those of OpenTelemetry: an http URL, a name, a sampler and its ratio', () => {
    const traces = (more: Record<string, string>) =>
      readConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318', ...more }).traces;
    const usual = { endpoint: 'http://127.0.0.1:4318', serviceName: 'idempay', sampler: 'parentbased_always_on' };
    expect(traces({})).toEqual({ ...usual, samplerRatio: 1 });
    expect(traces({ OTEL_EXPORTER_OTLP_ENDPOINT: 'https://otlp.example/team/' })?.endpoint).toBe(
      'https://otlp.example/team',
    );
    const own = { OTEL_SERVICE_NAME: 'shop', OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.25' };
    expect(traces(own)).toEqual({ ...usual, serviceName: 'shop', sampler: 'traceidratio', samplerRatio: 0.25 });
    for (const wrong of [
      '127.0.0.1:4318',
      'grpc://h:4317',
      'http://',
      'http://u:p@h',
      'http://h?token=a',
      'http://h#a',
    ]) {
      const sentence = expect.stringMatching(/^OTEL_EXPORTER_OTLP_ENDPOINT must have the form http:.*_HEADERS$/);
      expect(problemsOf({ OTEL_EXPORTER_OTLP_ENDPOINT: wrong }), wrong).toEqual([sentence]);
    }
    for (const wrong of ['-0.1', '1.1', 'half', '1e-1', '.5']) {
      const sentence = expect.stringContaining('OTEL_TRACES_SAMPLER_ARG must have the form');
      expect(problemsOf({ OTEL_TRACES_SAMPLER_ARG: wrong }), wrong).toEqual([sentence]);
    }
    expect(doubtsAbout({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://h' })).toHaveLength(1);
  });

  test('keep payments at least as long as their keys', () => {
    const sentence = expect.stringContaining('PAYMENT_RETENTION_DAYS must be at least IDEMPOTENCY_TTL_SECONDS');
    const about = (days: string, ttlSeconds: number) =>
      problemsOf({ PAYMENT_RETENTION_DAYS: days, IDEMPOTENCY_TTL_SECONDS: `${ttlSeconds}` });
    expect(about('1', 86_400)).toEqual([]);
    expect(about('1', 86_401)).toEqual([sentence]);
    expect(about('', TEN_YEARS_SECONDS), 'for ever').toEqual([]);
    expect(about('x', TEN_YEARS_SECONDS), 'one sentence for one mistake').toHaveLength(1);
  });
});

describe('the settings of the port', () => {
  test('take a certificate and its key together, or neither', () => {
    const [cert, key] = [{ TLS_CERT_FILE: ' /tls/cert.pem ' }, { TLS_KEY_FILE: '/tls/key.pem' }];
    expect(readConfig({}).certificateFiles).toBeUndefined();
    const both = { certFile: '/tls/cert.pem', keyFile: '/tls/key.pem' };
    expect(readConfig({ ...cert, ...key }).certificateFiles).toEqual(both);
    expect(problemsOf(cert)).toEqual(['TLS_CERT_FILE is set but TLS_KEY_FILE is not: set both (TLS) or neither']);
    expect(problemsOf(key)).toEqual(['TLS_KEY_FILE is set but TLS_CERT_FILE is not: set both (TLS) or neither']);
  });

  test.each<[string, readonly string[]]>([
    ['10.0.0.0/8', ['10.0.0.0/8']],
    [' 127.0.0.1, fd00::/8 ,::1/128', ['127.0.0.1', 'fd00::/8', '::1/128']],
  ])('trust the proxies %j', (text, networks) => {
    expect(readConfig({ AUTH: 'none', TRUST_PROXY: text }).trustedNetworks).toEqual(networks);
  });

  const NO_NETWORKS = [
    ...['true', '1', 'loopback', '10.0.0', '10.0.0.1,', ',', 'fe80::1%eth0', '0.0.0.0/0', '::/0', '10.0.0.0/'],
    ...['10.0.0.0/33', '::/129', '10.0.0.0/08', '10.0.0.0/8/8', '10.0.0.0/255.0.0.0'],
  ];
  test.each(NO_NETWORKS)('trust no proxies %j', (text) => {
    const problem = expect.stringMatching(/^TRUST_PROXY must have the form addresses or networks/);
    expect(problemsOf({ AUTH: 'none', TRUST_PROXY: text })).toEqual([problem]);
  });

  test('ask for AUTH behind a proxy, because others reach the service through it', () => {
    const problem = expect.stringMatching(/^TRUST_PROXY is set, so others reach the service: set AUTH=required with/);
    expect(problemsOf({ TRUST_PROXY: '10.0.0.0/8' })).toEqual([problem]);
  });
});

describe('required settings', () => {
  test('that are not set, or empty, refuse the start, and so does a name that is no setting', () => {
    const required = { REQUIRED_SETTINGS: 'PROCESSOR_URL, DATA_DIR' };
    expect(problemsOf({ ...required, PROCESSOR_URL: ' ', DATA_DIR: '/data' })).toEqual([
      "PROCESSOR_URL is not set, and REQUIRED_SETTINGS names it: set it to the processor's address, or to simulated",
    ]);
    expect(problemsOf(required)).toHaveLength(2);
    expect(problemsOf({ ...required, PROCESSOR_URL: 'simulated', DATA_DIR: '/data' })).toEqual([]);
    expect(problemsOf({ REQUIRED_SETTINGS: 'PROCESSOR_ULR' })).toEqual([
      'REQUIRED_SETTINGS names PROCESSOR_ULR, which is not a setting',
    ]);
    expect(problemsOf({ REQUIRED_SETTINGS: 'PROCESSOR_URL,' })).toEqual([
      expect.stringContaining('must have the form'),
    ]);
  });

  test.each(['compose.yaml', 'ops/systemd/idempay.service', 'ops/kubernetes/deployment.yaml'])(
    'name the processor in %s, so that a lost file never leads to simulated payments',
    (file) => {
      expect(readFileSync(file, 'utf8')).toMatch(/REQUIRED_SETTINGS(: |=|, value: ")PROCESSOR_URL/);
    },
  );
});

describe('the settings of a processor over HTTP', () => {
  test('have defaults, and leave those of the simulated one unused and checked', () => {
    const timesAndAccount = { account: undefined, timeoutMs: 10_000, dedupMs: 72_000_000 };
    const defaults = { kind: 'http', url: PROCESSOR, ...timesAndAccount, formerNames: [], isLossAccepted: false };
    expect(readConfig({ PROCESSOR_URL: ` ${PROCESSOR} `, PROCESSOR_DELAY_MS: '50' }).processor).toEqual(defaults);
    const others = { PROCESSOR_ACCOUNT: ' shop-7 ', PROCESSOR_TIMEOUT_MS: '5', PROCESSOR_DEDUP_SECONDS: '7' };
    const expected = { ...defaults, account: 'shop-7', timeoutMs: 5, dedupMs: 7_000 };
    expect(readConfig({ PROCESSOR_URL: PROCESSOR, ...others }).processor).toEqual(expected);
    expect(problemsOf({ PROCESSOR_URL: PROCESSOR, PROCESSOR_DELAY_MS: 'x' })).toHaveLength(1);
    const inFlight = [{}, { PROCESSOR_URL: PROCESSOR }].map((set) => readConfig(set).payments.maxInFlight);
    expect(inFlight).toEqual([10_000, 192]);
    const bounds = expect.stringContaining(`must be a whole number from 1 to ${LONGEST_TIMER_MS}`);
    expect(problemsOf({ PROCESSOR_TIMEOUT_MS: `${LONGEST_TIMER_MS + 1}` })).toEqual([bounds]);
  });

  test('names former names, and accepts a loss', () => {
    const names = ['https://a.example/v1,v2?account=shop:7', 'https://a.example?user=0123456789ab', 'http://b?no-user'];
    for (const text of [names.join(','), ` ${names.join('\n')} `, names.join(' , ')]) {
      const { processor } = readConfig({ PROCESSOR_URL: PROCESSOR, PROCESSOR_FORMER_NAMES: text });
      expect(processor).toMatchObject({ formerNames: names });
    }
    for (const text of ['simulated', 'https://a.example', 'a.example?no-user', 'https://a.example?user=shop', ',']) {
      const problems = problemsOf({ PROCESSOR_URL: PROCESSOR, PROCESSOR_FORMER_NAMES: text });
      expect(problems).toEqual([expect.stringContaining('PROCESSOR_FORMER_NAMES must have the form')]);
    }
    const accepting = readConfig({ PROCESSOR_URL: PROCESSOR, PROCESSOR_LOST_ROWS: 'accept' });
    expect(accepting.processor).toMatchObject({ isLossAccepted: true });
    expect(problemsOf({ PROCESSOR_LOST_ROWS: 'yes' })).toEqual([
      expect.stringContaining('PROCESSOR_LOST_ROWS must have the form accept'),
    ]);
  });

  test('asks for the simulated one by its name, which is no address', () => {
    const named = readConfig({ PROCESSOR_URL: ' simulated ', PROCESSOR_DELAY_MS: '50' });
    expect(named.processor).toEqual({ kind: 'simulated', isNamed: true, delayMs: 50, dedupMs: 72_000_000 });
    expect(named.payments.maxInFlight).toBe(10_000);
    expect(problemsOf({ PROCESSOR_URL: 'Simulated' })).toEqual([expect.stringContaining('; or simulated')]);
  });

  test.each([
    ['10', '', false],
    ['10', '9901', false],
    ['10', '9900', true],
    ['11', '', true],
    ['86400', '86399900', true],
  ])('with a lease of %s s take a call of %j ms: %s', (lockTtlSeconds, timeoutMs, isTaken) => {
    const sentence =
      'PROCESSOR_TIMEOUT_MS must be less than LOCK_TTL_SECONDS, by at least 100 ms: a call must end within its lease';
    const environment = { LOCK_TTL_SECONDS: lockTtlSeconds, PROCESSOR_TIMEOUT_MS: timeoutMs };
    expect(problemsOf({ ...environment, PROCESSOR_URL: PROCESSOR })).toEqual(isTaken ? [] : [sentence]);
    expect(problemsOf(environment), 'of the simulated processor').toEqual([]);
  });
});

describe('a misspelt setting', () => {
  /** The settings that were probably meant, each with the name that was given. */
  function meantBy(environment: Record<string, string>): string[] {
    return doubtsAbout(environment).map((sentence) => {
      const [, given, meant] = /^(\S+) is not a setting .*: (\S+) was probably meant$/.exec(sentence) ?? [];
      return `${given} ${meant}`;
    });
  }

  test.each([
    ['PROCESSOR_URL', 'PROCESSOR_ULR PROCESSOR_URI PAYMENT_PROCESSOR_URL'],
    ['REDIS_URL', 'REDIS_URI redis_url REDISURL VALKEY_URL IDEMPAY_REDIS_URI'],
    ['DATABASE_URL', 'POSTGRES_URL POSTGRESQL_URI DATABASE_URI DATABSE_URL'],
    ['DATA_DIR', 'DATADIR DATA_DIRECTORY'],
    ['LOG_LEVEL', 'LOGLEVEL log-level'],
    ['LOCK_TTL_SECONDS', 'LOCK_TTL LOCK_TTL_MS'],
    ['PROCESSOR_TIMEOUT_MS', 'PROCESSOR_TIMEOUT PROCESSOR_TIMEOUT_SECONDS'],
    ['IDEMPOTENCY_TTL_SECONDS', 'IDEMPOTENCY_TTL IDEMPOTENCE_TTL_SECONDS'],
    ['PORT', 'IDEMPAY_PORT'],
  ])('%s is named as what was probably meant by %s', (meant, names) => {
    for (const given of names.split(' ')) expect(meantBy({ [given]: 'something' })).toEqual([`${given} ${meant}`]);
  });

  test('with one letter left out, put in, exchanged or swapped is named, whichever it is', () => {
    for (const name of [...settingDefaults().keys()].filter(({ length }) => length >= 8)) {
      const middle = Math.floor(name.length / 2);
      const [left, right] = [name.slice(0, middle), name.slice(middle)];
      const swapped = left.slice(0, -1) + right.slice(0, 1) + left.slice(-1) + right.slice(1);
      for (const given of [left + right.slice(1), `${left}Q${right}`, `${left}Q${right.slice(1)}`, swapped]) {
        if (given !== name) expect(meantBy({ [given]: 'something' }), given).toEqual([`${given} ${name}`]);
      }
    }
  });

  /** Names of variables of shells, CI, containers, clouds and the stores' programs that look most like a setting. */
  const USUAL = `host port HOME HOSTNAME LOGNAME TMPDIR NVM_DIR WINDIR XDG_DATA_DIRS PORTAGE_TMPDIR PORTDIR PORTAGE_BINHOST
    PROCESSOR_ARCHITECTURE PROCESSOR_IDENTIFIER PROCESSOR_LEVEL PROCESSOR_REVISION UV_THREADPOOL_SIZE npm_config_loglevel
    JENKINS_URL BUILD_URL JOB_URL REDIS_SERVICE_HOST REDIS_SERVICE_PORT REDIS_PORT REDIS_HOST REDIS_PASSWORD REDIS_VERSION
    REDIS_DOWNLOAD_URL POSTGRES_USER POSTGRES_PASSWORD POSTGRES_DB POSTGRES_HOST POSTGRES_PORT DOCKER_HOST IDEMPAY_SERVICE_HOST
    IDEMPAY_PORT_8080_TCP_ADDR IDEMPAY_URL IDEMPAY_API_KEY IDEMPAY_API_KEY_FILE DATABASE_HOST DATABASE_NAME DATABASE_USER DATABASE_PASSWORD PGHOST PGPORT PGDATABASE BASE_URL API_URL
    SERVICE_URL VERCEL_URL KAFKA_URL MONGO_URL AMQP_URL OTEL_LOG_LEVEL RUST_LOG LOG_FORMAT LOG_DIR DATA_CENTER SERVER_PORT HTTP_PORT
    SSL_CERT_FILE SSL_CERT_DIR SSLKEYLOGFILE NODE_EXTRA_CA_CERTS _`;
  const REFERENCE_PROCESSOR = new URL('../../reference-processor/settings.ts', import.meta.url);

  test('does not include common environment variables or those of the reference processor', () => {
    const theirs = readFileSync(REFERENCE_PROCESSOR, 'utf8').match(/(?<=')[A-Z]+_[A-Z_]+(?=')/g) ?? [];
    expect(theirs.length).toBeGreaterThan(8);
    const names = [...USUAL.split(/\s+/), ...theirs];
    expect(meantBy(Object.fromEntries(names.map((name) => [name, 'something'])))).toEqual([]);
    expect(meantBy({ IDEMPAY_PORT: 'tcp://10.0.0.7:8080' })).toEqual([]);
  });

  test('does not include empty variables, names whose setting is set, or the settings themselves', () => {
    expect(meantBy({ POSTGRES_URL: 'postgres://other/app', DATABASE_URL: 'postgres://ours/app' })).toEqual([]);
    expect(meantBy({ PROCESOR_URL: '' })).toEqual([]);
    expect(meantBy(Object.fromEntries([...settingDefaults().keys()].map((name) => [name, '1'])))).toEqual([]);
  });
});

test.each(['20.18.1', '18.20.8', '0.10.48'])('Node %s is refused with both versions in the sentence', (version) => {
  const sentence = `Idempay needs Node.js 20.19.0 or newer; this is ${version}. Install a newer one.`;
  expect(refusalOfNode(version)).toBe(sentence);
});

test.each(['20.19.0', '20.20.2', '22.0.0', '25.0.0-nightly'])('Node %s is taken', (version) => {
  expect(refusalOfNode(version)).toBeUndefined();
});

test('npm refuses what the start refuses, and the entry loads nothing before the check', () => {
  const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
  expect(JSON.parse(read('package.json')).engines).toEqual({ node: '>=20.19.0' });
  expect(read('.npmrc')).toContain('engine-strict=true');
  // Every Node that can load a module at all has `node:v8`.
  expect(read('dist/main.js').match(/^import .*/gm)).toEqual([
    expect.stringContaining("'node:v8'"),
    expect.stringContaining("'./node-version.js'"),
  ]);
  expect(read('dist/node-version.js')).not.toContain('import');
});
