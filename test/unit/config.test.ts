import { describe, expect, test } from 'vitest';
import { type Config, ConfigError, readConfig } from '#idempay/config.js';

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
const DAY_MS = 86_400_000;
const PROCESSOR = 'https://processor.example/v1';
const LONGEST_LEASE = { PROCESSOR_URL: PROCESSOR, LOCK_TTL_SECONDS: '86400' };

const timeoutMsOf = ({ processor }: Config) => ('timeoutMs' in processor ? processor.timeoutMs : -1);
const delayMsOf = ({ processor }: Config) => ('delayMs' in processor ? processor.delayMs : -1);

/** Each numeric setting with its bounds, where its value is found, in its unit there, and what it needs beside it. */
const NUMBERS: readonly [
  name: string,
  least: number,
  most: number,
  read: (config: Config) => number | undefined,
  factor: number,
  beside?: Record<string, string>,
][] = [
  ['PORT', 0, 65_535, (config) => config.port, 1],
  ['IDEMPOTENCY_TTL_SECONDS', 1, TEN_YEARS_SECONDS, (config) => config.payments.idempotencyTtlMs, 1000],
  ['LOCK_TTL_SECONDS', 1, 86_400, (config) => config.payments.leaseMs, 1000],
  ['PAYMENT_RETENTION_DAYS', 1, 3650, (config) => config.payments.retentionMs, DAY_MS],
  ['TRANSACTION_CACHE_TTL_SECONDS', 1, 2_147_483, (config) => config.transactionCacheTtlMs, 1000],
  ['PROCESSOR_DELAY_MS', 0, LONGEST_TIMER_MS, delayMsOf, 1],
  ['PROCESSOR_DEDUP_SECONDS', 0, TEN_YEARS_SECONDS, (config) => config.processor.dedupMs, 1000],
  ['PROCESSOR_DEDUP_SECONDS', 0, TEN_YEARS_SECONDS, (config) => config.processor.dedupMs, 1000, LONGEST_LEASE],
  ['PROCESSOR_TIMEOUT_MS', 1, 86_399_900, timeoutMsOf, 1, LONGEST_LEASE],
];

describe('the settings', () => {
  test('have the defaults of decisions G3 when nothing is set', () => {
    expect(readConfig({})).toMatchObject({
      host: '127.0.0.1',
      port: 8080,
      logLevel: 'info',
      deployment: { kind: 'embedded', dataDir: './data' },
      payments: { idempotencyTtlMs: 86_400_000, leaseMs: 30_000, payloadMismatch: 'replay', retentionMs: undefined },
      transactionCacheTtlMs: 300_000,
      processor: { kind: 'simulated', delayMs: 0, dedupMs: 72_000_000 },
    });
  });

  test('that are empty or white space count as unset', () => {
    const names = ['HOST', 'DATA_DIR', 'REDIS_URL', 'DATABASE_URL', 'PROCESSOR_URL', 'LOG_LEVEL', 'PAYLOAD_MISMATCH'];
    for (const empty of ['', ' ', '\t']) {
      const environment = Object.fromEntries([...names, ...NUMBERS.map(([name]) => name)].map((name) => [name, empty]));
      expect(readConfig(environment)).toEqual(readConfig({}));
    }
  });

  test('are read, with white space around them taken away', () => {
    const config = readConfig({ HOST: ' 0.0.0.0 ', DATA_DIR: '/data', PAYLOAD_MISMATCH: 'reject', PORT: ' 1 ' });
    const expected = {
      host: '0.0.0.0',
      port: 1,
      deployment: { dataDir: '/data' },
      payments: { payloadMismatch: 'reject' },
    };
    expect(config).toMatchObject(expected);
  });

  test('with unknown names are ignored', () => {
    expect(readConfig({ PATH: '/bin', PORTS: 'x', port: 'x' })).toEqual(readConfig({}));
  });

  test('cannot be changed once they were read', () => {
    const config = readConfig({});
    expect(() => Object.assign(config, { port: 1 })).toThrow(TypeError);
    expect(() => Object.assign(config.payments, { leaseMs: 1 })).toThrow(TypeError);
  });

  test.each(NUMBERS)('%s is taken from %i to %i', (name, least, most, read, factor, beside) => {
    for (const value of [least, least + 1, most - 1, most]) {
      expect(read(readConfig({ ...beside, [name]: String(value) }))).toBe(value * factor);
    }
  });

  test.each([
    ...NUMBERS.filter(([, , , , , beside]) => !beside).map(([name, least, most]) => [name, least, most] as const),
    // Checked although nothing uses it without PROCESSOR_URL.
    ['PROCESSOR_TIMEOUT_MS', 1, LONGEST_TIMER_MS] as const,
  ])('%s is refused below %i and above %i, and when it is no whole number', (name, least, most) => {
    const sentence = `${name} must be a whole number from ${least} to ${most}`;
    const wrong = [least - 1, most + 1, 1.5, -1, '1e1', '0x1', 'ten', '1 0', '1_0', 'Infinity', '9'.repeat(30), '１'];
    for (const value of wrong) {
      expect(problemsOf({ [name]: String(value) }), `${name}=${value}`).toEqual([expect.stringContaining(sentence)]);
    }
    expect(problemsOf({ [name]: String(least) })).toEqual([]);
    expect(problemsOf({ [name]: String(most) })).toEqual([]);
  });

  test.each(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'])('LOG_LEVEL %s is taken', (level) => {
    expect(readConfig({ LOG_LEVEL: level }).logLevel).toBe(level);
  });

  test.each([
    ['LOG_LEVEL', 'verbose'],
    ['LOG_LEVEL', 'INFO'],
    ['LOG_LEVEL', 'toString'],
    ['PAYLOAD_MISMATCH', 'ignore'],
    ['PAYLOAD_MISMATCH', 'Reject'],
  ])('%s %s is refused with the choices there are', (name, value) => {
    expect(problemsOf({ [name]: value })).toEqual([
      expect.stringMatching(`^${name} must be one of .*, not '${value}'$`),
    ]);
  });

  test('that are wrong are all reported at once, each in a sentence that names it', () => {
    const wrong = {
      PORT: '70000',
      LOG_LEVEL: 'loud',
      IDEMPOTENCY_TTL_SECONDS: '0',
      LOCK_TTL_SECONDS: 'x',
      TRANSACTION_CACHE_TTL_SECONDS: '-1',
      PROCESSOR_DELAY_MS: '1.5',
      PROCESSOR_TIMEOUT_MS: '0',
      PROCESSOR_DEDUP_SECONDS: '-1',
      PAYMENT_RETENTION_DAYS: '0',
      PAYLOAD_MISMATCH: 'maybe',
      REDIS_URL: 'http://example.com',
      DATABASE_URL: 'nonsense',
      PROCESSOR_URL: 'ftp://example.com',
    };
    const problems = problemsOf(wrong);
    expect(problems.map((problem) => problem.split(' ')[0]).sort()).toEqual(Object.keys(wrong).sort());
  });

  test('that are wrong are all in the message of the start', () => {
    expect(new ConfigError(['PORT is wrong', 'HOST is wrong']).message).toMatch(/PORT is wrong\s.*HOST is wrong/);
  });

  test.each([
    ['REDIS_URL', 'redis://localhost:6379', 'DATABASE_URL'],
    ['DATABASE_URL', 'postgres://localhost/idempay', 'REDIS_URL'],
  ])('%s alone is refused with a sentence that names the other one', (name, url, missing) => {
    expect(problemsOf({ [name]: url })).toEqual([expect.stringContaining(`${name} is set but ${missing} is not`)]);
  });

  test('never show a password in a problem, whatever is wrong with the URL', () => {
    const secret = 'hunter2-hunter2';
    const urls = [`http://u:${secret}@h?a=b`, `redis//u:${secret}@h`, `postgres://u:${secret}@h:port`, `u:${secret}`];
    for (const name of ['REDIS_URL', 'DATABASE_URL', 'PROCESSOR_URL']) {
      for (const url of urls) {
        const problems = problemsOf({ [name]: url, PORT: 'x' });
        expect(problems.length, `${name}=${url}`).toBeGreaterThanOrEqual(2);
        expect(problems.join()).not.toContain(secret);
      }
    }
  });
});

describe('the settings of a processor over HTTP', () => {
  test('have the defaults of decisions G3', () => {
    const expected = { kind: 'http', url: PROCESSOR, account: undefined, timeoutMs: 10_000, dedupMs: 72_000_000 };
    expect(readConfig({ PROCESSOR_URL: PROCESSOR }).processor).toEqual(expected);
  });

  test.each(['http://h', 'https://h:8443/v1/', 'http://user:p%40ss@h/v1', 'http://[::1]:9000'])(
    'may have the URL %s',
    (url) => {
      expect(readConfig({ PROCESSOR_URL: ` ${url} ` }).processor).toMatchObject({ kind: 'http', url });
    },
  );

  test('cannot have a URL that processor-url.test.ts refuses', () => {
    const sentence = expect.stringMatching('^PROCESSOR_URL must have the form http://host/path');
    expect(problemsOf({ PROCESSOR_URL: 'ftp://h' })).toEqual([sentence]);
  });

  test('may name the account, which is checked', () => {
    const { processor } = readConfig({ PROCESSOR_URL: PROCESSOR, PROCESSOR_ACCOUNT: ' shop-7 ' });
    expect(processor).toMatchObject({ account: 'shop-7' });
    expect(problemsOf({ PROCESSOR_URL: PROCESSOR, PROCESSOR_ACCOUNT: 'shop 7' })).toEqual([
      expect.stringMatching('^PROCESSOR_ACCOUNT must have the form'),
    ]);
  });

  test('leave the simulated delay valid, unused, and checked', () => {
    const { processor } = readConfig({ PROCESSOR_URL: PROCESSOR, PROCESSOR_DELAY_MS: '50' });
    expect(processor).not.toHaveProperty('delayMs');
    expect(problemsOf({ PROCESSOR_URL: PROCESSOR, PROCESSOR_DELAY_MS: 'x' })).toHaveLength(1);
  });

  test('are refused when a call may take as long as the lease', () => {
    const sentence =
      'PROCESSOR_TIMEOUT_MS must be less than LOCK_TTL_SECONDS, by at least 100 ms: a call must end within its lease';
    const about = (lockTtlSeconds: string, timeoutMs: string, url = PROCESSOR) =>
      problemsOf({ PROCESSOR_URL: url, LOCK_TTL_SECONDS: lockTtlSeconds, PROCESSOR_TIMEOUT_MS: timeoutMs });
    expect(about('10', '10000')).toEqual([sentence]);
    expect(about('10', '10001')).toEqual([sentence]);
    expect(about('10', '')).toEqual([sentence]);
    expect(about('10', '9901')).toEqual([sentence]);
    expect(about('10', '9900')).toEqual([]);
    expect(about('11', '')).toEqual([]);
    expect(about('10', '10000', ''), 'without PROCESSOR_URL').toEqual([]);
  });
});

describe('PAYMENT_RETENTION_DAYS', () => {
  test('is refused when keys live longer than payments would be kept', () => {
    const sentence = 'PAYMENT_RETENTION_DAYS must be at least IDEMPOTENCY_TTL_SECONDS';
    const about = (days: string, ttlSeconds: string) =>
      problemsOf({ PAYMENT_RETENTION_DAYS: days, IDEMPOTENCY_TTL_SECONDS: ttlSeconds });
    expect(about('1', '86400')).toEqual([]);
    expect(about('1', '86401')).toEqual([expect.stringContaining(sentence)]);
    expect(about('3650', String(TEN_YEARS_SECONDS))).toEqual([]);
    expect(about('', String(TEN_YEARS_SECONDS)), 'for ever').toEqual([]);
    expect(about('x', String(TEN_YEARS_SECONDS)), 'one sentence for one mistake').toHaveLength(1);
  });
});
