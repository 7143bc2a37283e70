import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { ConfigError, readConfig } from '#idempay/config.js';
import { authoritiesIn, followFile, secretIn } from '#idempay/platform/setting-files.js';
import { hangReadsOf, LIBUV_THREADS } from '../../testkit/hung-pipe.js';
import { makeCertificates } from '../../testkit/servers/certificates.js';
import { until } from '../../testkit/time/until.js';

const folder = await mkdtemp(join(tmpdir(), 'idempay-secrets-'));
const certificates = await makeCertificates();
afterAll(() => Promise.all([rm(folder, { recursive: true }), certificates.remove()]));

const DEADLINE_MS = 10_000;
const PROCESSOR = 'https://shop:not-this-one@processor.example/v1';
let files = 0;

async function fileWith(content: string | Uint8Array): Promise<string> {
  files += 1;
  const path = join(folder, `${files}`);
  await writeFile(path, content);
  return path;
}

function problemsOf(environment: Record<string, string>): readonly string[] {
  try {
    readConfig(environment);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}

describe('a secret in a file', () => {
  test.each([
    ['with one newline at its end', `${PROCESSOR}\n`],
    ['without a newline', PROCESSOR],
  ])('is the value of its setting: %s', async (_what, content) => {
    const config = readConfig({ PROCESSOR_URL_FILE: await fileWith(content) });
    expect(config.processor).toMatchObject({ kind: 'http', url: PROCESSOR });
  });

  test('is found behind the links of a mounted secret, and counts as a setting that is set', async () => {
    const data = join(folder, '..data');
    await symlink(await fileWith(`${PROCESSOR}\n`), data);
    const path = join(folder, 'processor-url');
    await symlink(data, path);
    const config = readConfig({ PROCESSOR_URL_FILE: path, REQUIRED_SETTINGS: 'PROCESSOR_URL' });
    expect(config.processor).toMatchObject({ url: PROCESSOR });
  });

  test('and its setting together are refused; an empty one of them counts as unset', async () => {
    const path = await fileWith(PROCESSOR);
    expect(problemsOf({ PROCESSOR_URL: PROCESSOR, PROCESSOR_URL_FILE: path })).toEqual([
      'PROCESSOR_URL and PROCESSOR_URL_FILE are both set: remove one of them',
    ]);
    expect(problemsOf({ PROCESSOR_URL: ' ', PROCESSOR_URL_FILE: path })).toEqual([]);
    expect(problemsOf({ PROCESSOR_URL: PROCESSOR, PROCESSOR_URL_FILE: '' })).toEqual([]);
  });

  test.each<[what: string, make: () => Promise<string>, sentence: RegExp]>([
    ['that is missing', async () => join(folder, 'nothing'), /does not exist$/],
    ['below something that is no folder', async () => join(await fileWith('x'), 'y'), /does not exist$/],
    ['that is a folder', async () => folder, /is a folder$/],
    ['that is no regular file', async () => '/dev/null', /is not a regular file$/],
    ['that is empty', () => fileWith(''), /is empty$/],
    ['of a newline alone', () => fileWith('\n'), /is empty$/],
    ['with two newlines', () => fileWith(`${PROCESSOR}\n\n`), /several lines/],
    ['of Windows', () => fileWith(`${PROCESSOR}\r\n`), /CR LF/],
    ['with a byte order mark', () => fileWith(`\uFEFF${PROCESSOR}`), /byte order mark/],
    ['in UTF-16', () => fileWith(Buffer.from(`\uFEFF${PROCESSOR}`, 'utf16le')), /not UTF-8/],
    ['with a NUL', () => fileWith(`${PROCESSOR}\0`), /control characters/],
    ['with a blank at its beginning', () => fileWith(` ${PROCESSOR}\n`), /begins or ends with a blank/],
    ['with a blank at its end', () => fileWith(`${PROCESSOR} \n`), /begins or ends with a blank/],
    ['with a no-break space at its end', () => fileWith(`${PROCESSOR}\u00A0`), /begins or ends with a blank/],
    ['of blanks alone', () => fileWith('  \n'), /begins or ends with a blank/],
    ['that is too long', () => fileWith(PROCESSOR.padEnd(1024 * 1024 + 1, 'x')), /longer than 1048576 bytes$/],
  ])('%s is refused with a sentence that has nothing of it', async (_what, make, sentence) => {
    const problems = problemsOf({ PROCESSOR_URL_FILE: await make() });
    expect(problems).toEqual([expect.stringMatching(/^PROCESSOR_URL_FILE: \//)]);
    expect(problems[0]).toMatch(sentence);
    expect(problems[0]).not.toContain('not-this-one');
  });

  test.each(['REDIS_URL_FILE', 'DATABASE_URL_FILE', 'REDIS_CA_FILE', 'DATABASE_CA_FILE'])(
    'that is a URL in the place of the path is refused without the URL (%s)',
    (name) => {
      const sentence = `${name} names a URL, not a file`;
      expect(problemsOf({ [name]: 'rediss://user:not-this-one@host' })).toContain(sentence);
      expect(problemsOf({ [name]: 'rediss://user:not-this-one@host' }).join()).not.toContain('not-this-one');
    },
  );

  test('that is wrong is the only problem of the stores, and its form is checked as that of the setting', async () => {
    const DATABASE_URL = 'postgres://host/idempay';
    expect(problemsOf({ DATABASE_URL, REDIS_URL_FILE: join(folder, 'nothing') })).toHaveLength(1);
    expect(problemsOf({ DATABASE_URL, REDIS_URL_FILE: await fileWith('http://:not-this-one@host') })).toEqual([
      expect.stringMatching(/^REDIS_URL must have the form /),
    ]);
  });
});

/**
 * Bug: with a blank at an end of a secret file the service started, and refused each later content because "only the password may change".
 * Cause: the start trimmed the value, and the renewal compared the text as it was. Fix: the file is refused at both.
 */
test('a blank that a secret gets while the service runs is named, and the previous content stays in use', async () => {
  const path = await fileWith(PROCESSOR);
  const { taken, errors, pass } = follow(path, PROCESSOR);
  await writeFile(path, `${PROCESSOR} \n`);
  pass(2_000);
  await until('the problem', DEADLINE_MS, () => errors.length > 0);
  expect(errors).toEqual([
    'PROCESSOR_URL_FILE: the file begins or ends with a blank: remove it. The previous content stays in use.',
  ]);
  expect(taken).toEqual([]);
});

/**
 * Bug: a secret on a network mount that hung stopped the whole process.
 * Cause: the file was read again synchronously. Fix: a thread of libuv's pool reads it.
 */
test('a secret whose read hangs holds up nothing, and its new content is taken once when the read ends', async () => {
  const path = await fileWith(PROCESSOR);
  const { taken, errors, pass } = follow(path, PROCESSOR);
  await writeFile(path, `${PROCESSOR}/new`);
  // Without a free thread the read does not end, as on such a mount.
  const pipe = join(folder, 'pipe');
  const release = hangReadsOf(pipe);
  onTestFinished(release);
  const reads = Array.from({ length: LIBUV_THREADS }, () => readFile(pipe));
  pass(10_000);
  expect(taken).toEqual([]);
  release();
  await Promise.allSettled(reads);
  await until('the new content', DEADLINE_MS, () => taken.length > 0);
  pass(1_000);
  const late =
    'PROCESSOR_URL_FILE: the file could not be read for 10 seconds, so a file system may hang. The previous content stays in use.';
  expect([taken, errors]).toEqual([[`${PROCESSOR}/new`], [late]]);
});

/**
 * Bug: the certificates of a file of authorities were parsed each second, all in one turn of the process.
 * Cause: the content was compared after it was parsed. Fix: it is compared first.
 */
test('authorities are parsed again only if their file has another content', async () => {
  const text = await readFile(certificates.authority, 'utf8');
  const path = await fileWith(text);
  let parsed = 0;
  const { taken, errors, pass } = follow(path, text, (content) => {
    parsed += 1;
    return authoritiesIn(content);
  });
  async function passAndRead() {
    pass(1_000);
    // The file is read again meanwhile.
    for (let count = 0; count < 5; count += 1) await readFile(certificates.key);
  }
  for (let second = 0; second < 10; second += 1) await passAndRead();
  expect(parsed).toBe(1);
  // Each problem is told again after the content that was known.
  for (const times of [1, 2]) {
    await rm(path);
    await passAndRead();
    await until('the problem', DEADLINE_MS, () => errors.length === times);
    await writeFile(path, text);
    await passAndRead();
  }
  expect(parsed).toBe(1);
  await writeFile(path, `${text}${text}`);
  await passAndRead();
  await until('the new content', DEADLINE_MS, () => taken.length > 0);
  expect([parsed, taken]).toEqual([2, [`${text}${text}`]]);
});

/** The file is read again when the test passes the time. */
function follow(path: string, text: string, read = secretIn) {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const [taken, errors]: [string[], unknown[]] = [[], []];
  const log = { info: () => {}, error: (line: unknown) => void errors.push(line) } as Pick<Logger, 'info' | 'error'>;
  const file = { name: 'PROCESSOR_URL_FILE', path, text };
  onTestFinished(followFile(file, read, (content) => void taken.push(content), log));
  return { taken, errors, pass: (ms: number) => vi.advanceTimersByTime(ms) };
}

describe('authorities in a file', () => {
  const STORES = { REDIS_URL: 'rediss://host', DATABASE_URL: 'postgres://host/idempay?sslmode=verify-full' };

  test('are those of the store or the processor that they are for', async () => {
    const path = certificates.authority;
    const { deployment, processor } = readConfig({
      ...STORES,
      PROCESSOR_URL: PROCESSOR,
      REDIS_CA_FILE: path,
      DATABASE_CA_FILE: path,
      PROCESSOR_CA_FILE: path,
    });
    const ca = expect.stringContaining('BEGIN CERTIFICATE');
    expect(processor).toMatchObject({ ca });
    expect(deployment).toMatchObject({
      redis: { ca },
      databaseUrl: `${STORES.DATABASE_URL}&sslrootcert=${encodeURIComponent(path)}`,
    });
  });

  test.each<[what: string, settings: () => Promise<Record<string, string>>, sentence: RegExp]>([
    ['a key', async () => ({ REDIS_CA_FILE: certificates.key }), /has no PEM certificate/],
    ['nothing', async () => ({ DATABASE_CA_FILE: join(folder, 'none') }), /does not exist/],
    [
      'a damaged certificate',
      async () => ({
        PROCESSOR_CA_FILE: await fileWith('-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'),
      }),
      /cannot be read/,
    ],
    ['an authority, for Redis without TLS', async () => plain('REDIS', 'redis://host'), /write rediss/],
    ['an authority, for a processor without TLS', async () => plain('PROCESSOR', 'http://host'), /write https/],
    [
      'an authority, for PostgreSQL without TLS',
      async () => plain('DATABASE', 'postgres://host/idempay?sslmode=disable'),
      /sslmode=verify-full/,
    ],
  ])('are refused if the file has %s', async (_what, settings, sentence) => {
    expect(problemsOf({ ...STORES, ...(await settings()) })).toEqual([expect.stringMatching(sentence)]);
  });

  function plain(name: string, url: string) {
    return { [`${name}_URL`]: url, [`${name}_CA_FILE`]: certificates.authority };
  }
});

test('a folder in place of a file of authorities is refused', async () => {
  const path = join(folder, 'ca');
  await mkdir(path);
  expect(problemsOf({ PROCESSOR_CA_FILE: path })).toEqual([`PROCESSOR_CA_FILE: ${path} is a folder`]);
});
